-- docs.lua - reference pages and editor annotations, from the rows and the comments.
--
--     build/moth lua/docs.lua OUT [stdlib/FILE.lua ...]
--
-- Writes OUT/index.md, one page per family of operations (OUT/ops-FAMILY.md), one for the functions
-- of the binding, one per standard library module, and OUT/moth.d.lua for the Lua language server.
-- Nothing is described here: operations and functions carry schema and help in their rows, the
-- standard library in its comments.

local moth = require "moth"
local docs = moth._C.docs()
local out_dir = arg[1]
local pages = {} -- { {file, title}, ... } for the index

-- Hidden operations that are methods under another name are shown under that name.
for _, op in ipairs(docs.ops) do
  if op.method_name then
    op.name, op.hidden, op.func, op.method, op.inplace = op.method_name, false, false, true, false
    op.schema = op.schema:gsub("^[%w_]+", op.name)
  end
end

local function write(name, lines)
  local path = out_dir .. "/" .. name
  local f = assert(io.open(path, "w"))
  f:write(table.concat(lines, "\n"), "\n")
  f:close()
end

-- ---- schemas ----

local reserved = { ["end"] = true, ["repeat"] = true, ["in"] = true, ["for"] = true, ["or"] = true,
  ["and"] = true, ["not"] = true, ["function"] = true, ["local"] = true, ["until"] = true }

local function identifier(name) return reserved[name] and name .. "_" or name end

-- Commas inside {} or "" do not separate.
local function split(list)
  local parts, depth, from = {}, 0, 1
  for at, c in list:gmatch "()([{}%[%]\",])" do
    if c == "{" or c == "[" then depth = depth + 1 end
    if c == "}" or c == "]" then depth = depth - 1 end
    if c == "," and depth == 0 then
      parts[#parts + 1] = list:sub(from, at - 1)
      from = at + 1
    end
  end
  parts[#parts + 1] = list:sub(from)
  return parts
end

-- "sum(tensor x, dim[]? dim=nil, *, dtype? dtype=nil) -> tensor" as { name, args, results }.
local function parse(schema)
  local name, list, result = schema:match "^([%w_]+)%((.*)%)%s*%->%s*(.*)$"
  if not name then
    name, list = schema:match "^([%w_]+)%((.*)%)"
    result = ""
  end
  local args, results, keyword = {}, {}, false
  for _, part in ipairs(split(list or "")) do
    part = part:match "^%s*(.-)%s*$"
    local left, default = part:match "^(.-)=(.*)$"
    local kind, arg_name = (left or part):match "^(%S+)%s+(%S+)$"
    if part == "*" then
      keyword = true
    elseif part ~= "" then
      local optional = kind and kind:sub(-1) == "?"
      args[#args + 1] = {
        kind = kind and kind:gsub("%?$", "") or "", name = arg_name or left or part,
        default = default or (optional and "nil" or nil), keyword = keyword,
      }
    end
  end
  for _, part in ipairs(split((result:gsub("^%((.*)%)$", "%1")))) do
    local kind, label = part:match "^%s*(%S+)%s*(%S*)"
    if kind then results[#results + 1] = { kind = kind, name = label } end
  end
  return { name = name or schema, args = args, results = results, result = result }
end

-- ---- Markdown ----

local function signature(s, skip)
  local words, starred = {}, false
  for i = 1 + (skip or 0), #s.args do
    local a = s.args[i]
    if a.keyword and not starred then
      words[#words + 1], starred = "*", true
    end
    words[#words + 1] = a.name .. (a.default and "=" .. a.default or "")
  end
  local arrow = s.result ~= "" and " -> " .. s.result or ""
  return s.name .. "(" .. table.concat(words, ", ") .. ")" .. arrow
end

local function add_arguments(lines, s)
  if #s.args == 0 then return end
  lines[#lines + 1] = "\n| argument | kind | default |\n|---|---|---|"
  for _, a in ipairs(s.args) do
    lines[#lines + 1] = ("| %s | %s | %s |"):format(a.name, a.kind, a.default or "")
  end
end

local function add_op(lines, op)
  local s = parse(op.schema)
  lines[#lines + 1] = "\n## " .. op.name .. "\n\n```"
  if op.func then lines[#lines + 1] = "moth." .. signature(s) end
  if op.method then lines[#lines + 1] = "x:" .. signature(s, 1) end
  if op.inplace then
    s.name = s.name .. "_"
    lines[#lines + 1] = "x:" .. signature(s, 1)
  end
  lines[#lines + 1] = "```\n\n" .. op.help
  if op.onnx then lines[#lines + 1] = "\nONNX: " .. op.onnx end
  add_arguments(lines, s)
end

local function write_ops()
  local by_family, order = {}, {}
  for _, op in ipairs(docs.ops) do
    if not op.hidden then
      if not by_family[op.family] then
        by_family[op.family] = { "# Operations: " .. op.family }
        order[#order + 1] = op.family
      end
      add_op(by_family[op.family], op)
    end
  end
  table.sort(order)
  for _, family in ipairs(order) do
    local file = "ops-" .. family .. ".md"
    write(file, by_family[family])
    pages[#pages + 1] = { file, "Operations: " .. family }
  end
end

local function write_functions()
  local lines = { "# Functions of the binding" }
  table.sort(docs.functions, function(a, b)
    return a.where .. a.name < b.where .. b.name
  end)
  for _, f in ipairs(docs.functions) do
    if f.help ~= "" then
      local s = parse(f.schema)
      local skip = s.args[1] and s.args[1].name == "self" and 1 or 0
      local where = f.where == "tensor:" and "x:" or f.where
      lines[#lines + 1] = ("\n## %s%s\n\n```\n%s%s\n```\n\n%s"):format(where, f.name, where,
        signature(s, skip), f.help)
    end
  end
  write("functions.md", lines)
  pages[#pages + 1] = { "functions.md", "Functions of the binding, tensor methods" }
end

-- ---- standard library ----

local function comment_text(line)
  local text = line:match "^%s*%-%-+%s?(.*)$"
  if not text then return nil end
  local param = text:match "^@param%s+(.*)$"
  local returned = text:match "^@return%s+(.*)$"
  if param then return "- " .. param end
  if returned then return "- returns " .. returned end
  return text:sub(1, 1) == "@" and "" or text
end

-- What a line declares: "name", "name(arguments)"; nil if nothing that has a page entry. `after` is
-- the next line, where the arguments of a class may stand.
local function declaration(line, after)
  local func = line:match "^function%s+([%w_.:]+%b())"
  if func then return func:gsub("%b()$", ""):gsub("^M[.:]", ""), (func:gsub("^M[.:]", "")) end
  local class = line:match 'class%("([%w_]+)"'
  if class and line:match "=" then
    local signature = (line .. after):match 'class%("[%w_]+"[^"]-"([^"]*)"'
    return class, class .. "(" .. (signature or "...") .. ")"
  end
end

local function read_lines(path)
  local lines = {}
  for line in io.lines(path) do lines[#lines + 1] = line end
  return lines
end

local function write_module(path)
  local name = path:gsub("^stdlib/", ""):gsub("%.lua$", ""):gsub("/init$", ""):gsub("/", ".")
  local lines, comment, head, source = { "# moth." .. name }, {}, true, read_lines(path)
  for i, line in ipairs(source) do
    local text = comment_text(line)
    if text then
      comment[#comment + 1] = text
    else
      local title, usage = declaration(line, source[i + 1] or "")
      if title and #comment > 0 then
        lines[#lines + 1] = ("\n## %s\n\n```\n%s\n```\n"):format(title, usage)
      end
      if title or head then table.move(comment, 1, #comment, #lines + 1, lines) end
      comment, head = {}, false
    end
  end
  local file = "moth." .. name .. ".md"
  write(file, lines)
  pages[#pages + 1] = { file, "moth." .. name }
end

-- ---- annotations for the Lua language server ----

local types = { tensor = "moth.Tensor", index = "moth.Tensor", ["tensor[]"] = "moth.Tensor[]",
  ["index[]"] = "moth.Tensor[]", operand = "moth.Tensor|number", int = "integer", float = "number",
  number = "number", bool = "boolean", str = "string", dim = "integer", newdim = "integer",
  pos = "integer", size = "integer|integer[]", ["dim[]"] = "integer|integer[]", any = "any",
  ["float[]"] = "number|number[]", func = "function", dtype = "moth.dtype", table = "table" }

local function type_of(kind)
  return types[kind] or (kind:find "^int%[" and "integer|integer[]") or "any"
end

local function add_declaration(lines, owner, s, skip, help)
  local names, keywords, spread = {}, {}, false
  for line in help:gmatch "[^\n]+" do lines[#lines + 1] = "---" .. line end
  for i = 1 + skip, #s.args do
    local a = s.args[i]
    local name = identifier(a.name)
    if a.keyword then
      keywords[#keywords + 1] = ("%s?: %s"):format(name, type_of(a.kind))
    elseif name ~= "..." then
      names[#names + 1] = name
      spread = spread or a.kind == "size"
      local mark = a.default and "?" or ""
      lines[#lines + 1] = ("---@param %s%s %s"):format(name, mark, type_of(a.kind))
    else
      spread = true
    end
  end
  if #keywords > 0 then
    names[#names + 1] = "options"
    lines[#lines + 1] = "---@param options? { " .. table.concat(keywords, ", ") .. " }"
  end
  if spread then
    names[#names + 1] = "..."
    lines[#lines + 1] = "---@param ... any"
  end
  for _, r in ipairs(s.results) do
    lines[#lines + 1] = "---@return " .. type_of(r.kind) .. (r.name ~= "" and " " .. r.name or "")
  end
  local list = table.concat(names, ", ")
  if reserved[s.name] then -- a name that only x["repeat"](x, 2) can write
    list = owner == "Tensor:" and "self, " .. list or list
    lines[#lines + 1] = ('%s["%s"] = function(%s) end\n'):format(owner:sub(1, -2), s.name, list)
  else
    lines[#lines + 1] = ("function %s%s(%s) end\n"):format(owner, s.name, list)
  end
end

local function add_op_declarations(lines, op)
  local s = parse(op.schema)
  if op.func then add_declaration(lines, "moth.", s, 0, op.help) end
  if op.method then add_declaration(lines, "Tensor:", s, 1, op.help) end
  if op.inplace then
    s.name = s.name .. "_"
    add_declaration(lines, "Tensor:", s, 1, op.help)
  end
end

local function write_annotations()
  local lines = { "---@meta moth\n", "---@alias moth.dtype string\n", "---@class moth.Tensor" }
  for _, op in ipairs { "add", "sub", "mul", "div", "mod", "pow", "idiv" } do
    lines[#lines + 1] = "---@operator " .. op .. "(moth.Tensor|number): moth.Tensor"
  end
  lines[#lines + 1] = "---@operator unm: moth.Tensor\n---@field [any] any\nlocal Tensor = {}\n"
  lines[#lines + 1] = "---@class moth\nlocal moth = {}\n"
  for _, op in ipairs(docs.ops) do
    if not op.hidden then add_op_declarations(lines, op) end
  end
  for _, f in ipairs(docs.functions) do
    local owner = f.where == "tensor:" and "Tensor:" or f.where
    if f.help ~= "" and (owner == "Tensor:" or owner == "moth.") then
      local s = parse(f.schema)
      local skip = owner == "Tensor:" and s.args[1] and s.args[1].name == "self" and 1 or 0
      add_declaration(lines, owner, s, skip, f.help)
    end
  end
  lines[#lines + 1] = "return moth"
  write("moth.d.lua", lines)
end

local function write_index()
  local lines = { "# Moth: reference\n",
    "Made from the sources by `make docs`. At the prompt, `help(name)` says the same.\n" }
  for _, page in ipairs(pages) do lines[#lines + 1] = ("- [%s](%s)"):format(page[2], page[1]) end
  write("index.md", lines)
end

write_ops()
write_functions()
for i = 2, #arg do write_module(arg[i]) end
write_annotations()
write_index()
