--- The rows of the operations: schemas, samples, and calls made from them. See README.md.
local moth = require "moth"
local extra = require "derived.samples"

local M = {}

local tensor_kinds = { tensor = true, operand = true, index = true }
local list_kinds = { ["int[]"] = true, size = true, ["dim[]"] = true, ["float[]"] = true }

-- "int[2]? k=1" to { kind = "int[]", name = "k", optional = true }.
local function parse_argument(text)
  local kind, name = text:match("^%s*(%S+)%s+([%w_]+)")
  local optional = kind:sub(-1) == "?"
  kind = kind:gsub("%?$", ""):gsub("%[%d+%]", "[]")
  return { kind = kind, name = name, optional = optional, default = text:match("=%s*(.-)%s*$") }
end

local function split(text, separator)
  local parts, depth, from = {}, 0, 1
  for i = 1, #text do
    local c = text:sub(i, i)
    if c:find("[{%[(]") then depth = depth + 1 end
    if c:find("[}%])]") then depth = depth - 1 end
    if c == separator and depth == 0 then
      parts[#parts + 1] = text:sub(from, i - 1)
      from = i + 1
    end
  end
  parts[#parts + 1] = text:sub(from)
  return parts
end

local function trim(s) return (s:gsub("^%s+", ""):gsub("%s+$", "")) end

local function parse_schema(schema)
  local arguments, keyword = {}, false
  local inside = schema:match("^[%w_]+(%b())"):sub(2, -2)
  if trim(inside) == "" then return arguments end
  for _, part in ipairs(split(inside, ",")) do
    part = trim(part)
    if part == "*" then
      keyword = true
    else
      local a = parse_argument(part)
      a.keyword = keyword
      arguments[#arguments + 1] = a
    end
  end
  return arguments
end

local function numbers(text)
  local list = {}
  for n in text:gmatch("[^,%s]+") do list[#list + 1] = tonumber(n) end
  return list
end

-- Elements of a tensor sample in float64.
local function elements(size, how)
  local function uniform(a, b) return moth.rand(size, { dtype = "float64" }) * (b - a) + a end
  if how == "+" then return uniform(0.5, 1.5) end
  if how == "u" then return uniform(-0.9, 0.9) end
  if how == "p" then return uniform(0.1, 0.9) end
  if how == ">1" then return uniform(1.1, 2.1) end
  if how == "?" then return moth.randn(size):gt(0) end
  if how:sub(1, 1) == "i" then
    local most = math.tointeger(tonumber(how:sub(2)) or 2)
    return moth.randint(1, most + 1, size)
  end
  local x = moth.randn(size, { dtype = "float64" })
  if how == "s" then
    local n = size[#size]
    return x:matmul(x:transpose(-1, -2)) + moth.eye(n, { dtype = "float64" }) * n
  end
  return x
end

local function tensor_of(text)
  local size, how = text:match("^(%b{})(.*)$")
  if not size then return nil end
  return { tensor = true, size = numbers(size:sub(2, -2)), how = trim(how) }
end

local words = { ["true"] = true, ["false"] = false, inf = math.huge }

local function literal(text)
  if text == "nil" then return nil end
  if words[text] ~= nil then return words[text] end
  local list = text:match("^(%b{})=?$")
  if list then return numbers(list:sub(2, -2)) end
  return math.tointeger(text) or tonumber(text) or text
end

-- What an item of a sample stands for, given the kind of its argument.
local function parse_item(text, argument)
  text = trim(text)
  if argument.kind == "tensor[]" then
    local list = { list = true }
    for item in text:sub(2, -2):gmatch("%b{}%S*") do list[#list + 1] = tensor_of(item) end
    return list
  end
  if tensor_kinds[argument.kind] and text:sub(1, 1) == "{" then
    local t = tensor_of(text)
    if argument.kind == "index" and t.how == "" then t.how = "i" end
    return t
  end
  return { value = literal(text) }
end

local function parse_sample(row)
  local items, position = {}, 0
  for _, text in ipairs(split(row.sample, ";")) do
    local name, rest = text:match("^%s*([%a_][%w_]*)%s*=%s*([^=].*)$")
    if name then
      for i, a in ipairs(row.arguments) do
        if a.name == name then items[i] = parse_item(rest, a) end
      end
    else
      position = position + 1
      local argument = row.arguments[position]
      if not argument then error(row.name .. ": the sample has too many arguments") end
      items[position] = parse_item(text, argument)
    end
  end
  return items
end

local Row = {}
Row.__index = Row

--- All rows; those without a sample have no `items`.
function M.all()
  local list = {}
  for _, doc in ipairs(moth._C.docs().ops) do
    local row = setmetatable({}, Row)
    for k, v in pairs(doc) do row[k] = v end
    row.sample = row.sample or extra[row.name]
    row.arguments = parse_schema(row.schema)
    if row.sample and row.sample ~= "" then row.items = parse_sample(row) end
    list[#list + 1] = row
  end
  return list
end

local function make(item)
  if item.tensor then return elements(item.size, item.how) end
  if not item.list then return item.value end
  local list = {}
  for i, t in ipairs(item) do list[i] = make(t) end
  return list
end

--- Fresh arguments in schema order; `n` tells how many there may be.
function Row:make()
  local args = { n = 0 }
  for i in ipairs(self.arguments) do
    if self.items[i] then
      args[i] = make(self.items[i])
      args.n = i
    end
  end
  return args
end

--- The function of the row, wherever it is.
function Row:callee()
  if self.hidden then return moth._C[self.name] end
  return moth[self.name] or moth._C.methods[self.name] or moth._C[self.name]
end

--- Calls it: positional arguments, then keyword ones in a table. Results as a list.
function Row:call(args, f)
  local given, keywords = {}, nil
  local n = 0
  for i, a in ipairs(self.arguments) do
    if i > args.n then break end
    if a.keyword then
      keywords = keywords or {}
      keywords[a.name] = args[i]
    else
      n = i
      given[i] = args[i]
    end
  end
  if keywords then
    n = n + 1
    given[n] = keywords
  end
  moth.manual_seed(99)
  local results = table.pack((f or self:callee())(table.unpack(given, 1, n)))
  if type(results[1]) == "table" and moth.is_tensor(results[1][1]) then return results[1] end
  return results
end

--- Applies f to each tensor among the arguments (also in lists); `kind` tells which sort it is.
function Row:map(args, f)
  local new = { n = args.n }
  for i = 1, args.n do
    local v, item = args[i], self.items[i]
    if moth.is_tensor(v) then
      new[i] = f(v, item, self.arguments[i])
    elseif item and item.list then
      new[i] = {}
      for k, t in ipairs(v) do new[i][k] = f(t, item[k], self.arguments[i]) end
    else
      new[i] = v
    end
  end
  return new
end

return M
