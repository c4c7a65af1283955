--- `make check-deps`: who may include whom.
---
---     kernels <- runtime core <- runtime/ops <- runtime/graph, io, dist <- lua <- stdlib <-
---     samples
---
--- tests may use everything, nothing uses tests. runtime/moth.h includes nothing of ours; only lua/
--- (and C hosts in samples and tests) includes lua.h; the standard library requires moth.* only.
local rank = {
  kernels = 1, runtime = 2, ["runtime/ops"] = 3, ["runtime/graph"] = 4, ["runtime/io"] = 4,
  ["runtime/dist"] = 4, lua = 5,
}

local problems = {}
local function complain(file, line, text)
  problems[#problems + 1] = ("%s:%d: %s"):format(file, line, text)
end

local function files(pattern)
  local list = {}
  local pipe = io.popen("git ls-files -co --exclude-standard " .. pattern)
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

-- The part of the house that a path belongs to.
local function part(path)
  local two = path:match("^(runtime/%w+)/")
  if two and rank[two] then return two end
  return path:match("^(%w+)/")
end

local function normalize(path)
  local parts = {}
  for p in path:gmatch("[^/]+") do
    if p == ".." then parts[#parts] = nil elseif p ~= "." then parts[#parts + 1] = p end
  end
  return table.concat(parts, "/")
end

local function exists(path)
  local f = io.open(path)
  if f then f:close() end
  return f ~= nil
end

-- Where a quoted include leads: beside the file, or in runtime/ (lua/ has -Iruntime).
local function resolve(file, name)
  local here = normalize(file:match("^(.*)/") .. "/" .. name)
  if exists(here) then return here end
  if exists("runtime/" .. name) then return "runtime/" .. name end
  return here
end

local function check_c(file)
  local own = part(file)
  local number = 0
  for line in io.lines(file) do
    number = number + 1
    local quoted = line:match('^%s*#%s*include%s+"([^"]+)"')
    local system = line:match("^%s*#%s*include%s+<([^>]+)>")
    if quoted and quoted ~= "families.def" then
      local target = part(resolve(file, quoted)) or "?"
      if not rank[target] then
        complain(file, number, "includes " .. quoted .. ", which is no part of the product")
      elseif rank[target] > rank[own] or rank[target] == rank[own] and target ~= own then
        complain(file, number, ("%s may not include %s (%s)"):format(own, target, quoted))
      end
    elseif system and (system:match("^lua") or system == "lauxlib.h") and own ~= "lua" then
      complain(file, number, "only lua/ includes " .. system)
    end
    if file == "runtime/moth.h" and quoted then
      complain(file, number, "moth.h must stand alone")
    end
  end
end

local function check_lua(file)
  local number = 0
  for line in io.lines(file) do
    number = number + 1
    local code = line:gsub("%-%-.*$", "")
    for name in code:gmatch("require%s*%(?%s*[\"']([^\"']+)[\"']") do
      if name ~= "moth" and not name:match("^moth%.") then
        complain(file, number, "requires " .. name .. "; only moth.* is allowed")
      end
    end
  end
end

for _, dir in ipairs { "kernels", "runtime", "lua" } do
  local patterns = ("'%s/*.[ch]' '%s/*.def' '%s/*.cu'"):gsub("%%s", dir)
  for _, file in ipairs(files(patterns)) do
    check_c(file)
  end
end
for _, dir in ipairs { "stdlib", "samples" } do
  for _, file in ipairs(files("'" .. dir .. "/*.lua'")) do check_lua(file) end
end

if #problems > 0 then print(table.concat(problems, "\n")) end
print(#problems == 0 and "check-deps: in order" or #problems .. " includes in a wrong direction")
os.exit(#problems == 0)
