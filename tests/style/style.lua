--- `make check-style`: what the eye should not have to check.
---
--- Files of C at most 1000 lines, of Lua 300; functions of C at most 100 lines; lines at most 100
--- columns; no tabs in sources, no trailing blanks; no unfinished work; no paths of somebody's
--- machine. Data (vectors, sample files) is not looked at. clang-format's opinion is counted, not
--- enforced.
local problems = {}
local function complain(file, line, text)
  problems[#problems + 1] = ("%s:%d: %s"):format(file, line, text)
end

local function files(patterns)
  local list = {}
  local pipe = io.popen("git ls-files -co --exclude-standard " .. patterns)
  for line in pipe:lines() do
    local f = io.open(line)
    if f then
      f:close()
      list[#list + 1] = line
    end
  end
  pipe:close()
  return list
end

-- Reference vectors are data in the form of Lua.
local function is_data(file)
  return file:match("^tests/golden/[^/]*%.lua$") and file ~= "tests/golden/run.lua"
end

-- Spelt in parts, so that this file passes.
local unfinished = { "TO" .. "DO", "XX" .. "X", "FIX" .. "ME", "for " .. "now",
  "place" .. "holder" }
local outside = { "/ho" .. "me/", "/wo" .. "rk/", "/Us" .. "ers/", "/tm" .. "p/bash" }

local function check_line(file, number, line)
  if utf8.len(line) and utf8.len(line) > 100 or #line > 300 then
    complain(file, number, "longer than 100 columns")
  end
  if line:find("\t") then complain(file, number, "a tab") end
  if line:find("%s$") then complain(file, number, "blanks at the end") end
  for _, word in ipairs(unfinished) do
    if line:find("%f[%w]" .. word .. "%f[%W]") then
      complain(file, number, "unfinished: " .. word)
    end
  end
  for _, path in ipairs(outside) do
    if line:find(path, 1, true) then complain(file, number, "a path outside: " .. path) end
  end
end

-- Functions of C begin with a line in column 1 that ends with "{" and end with "}" in column 1.
local function check_functions(file, lines)
  local from
  for i, line in ipairs(lines) do
    if line:find("^%a.*%)%s*{$") or (line == "{" and not from) then
      from = i
    elseif line:find("^}") and from then
      if i - from > 100 then
        complain(file, from, ("a function of %d lines"):format(i - from + 1))
      end
      from = nil
    end
  end
end

local function check(file, most)
  local lines = {}
  for line in io.lines(file) do lines[#lines + 1] = line end
  if #lines > most then complain(file, 1, ("%d lines; %d at most"):format(#lines, most)) end
  for i, line in ipairs(lines) do check_line(file, i, line) end
  if most == 1000 then check_functions(file, lines) end
  local head = lines[1] or ""
  if not head:find("^/%*") and not head:find("^%-%-") and not head:find("^//") then
    complain(file, 1, "no comment at the head of the file")
  end
end

local sources = "'kernels/*' 'runtime/*' 'lua/*' 'stdlib/*' 'tests/*' 'samples/*'"
local c_files = {}
for _, file in ipairs(files(sources)) do
  local ext = file:match("%.(%w+)$")
  if ext == "c" or ext == "h" or ext == "def" or ext == "cu" then
    check(file, 1000)
    if ext ~= "def" then c_files[#c_files + 1] = file end
  elseif ext == "lua" and not is_data(file) then
    check(file, 300)
  end
end

local function count_format()
  if not os.execute("command -v clang-format >/dev/null 2>&1") then return end
  local warnings = 0
  local pipe = io.popen("clang-format --dry-run " .. table.concat(c_files, " ") .. " 2>&1")
  for line in pipe:lines() do
    if line:find("clang%-format%-violations") then warnings = warnings + 1 end
  end
  pipe:close()
  print(("clang-format would change %d places (not an error)"):format(warnings))
end

count_format()
if #problems > 0 then print(table.concat(problems, "\n")) end
print(#problems == 0 and "check-style: in order" or #problems .. " things to put in order")
os.exit(#problems == 0)
