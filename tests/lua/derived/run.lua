--- Tests made from the rows of the operations; see README.md.
---
--- usage: moth tests/lua/derived/run.lua [--only NAME] [--quick] [-v]
local here = arg[0]:match("^(.*)/") or "."
package.path = here .. "/../?.lua;" .. here .. "/../../golden/?.lua;" .. package.path

local moth = require "moth"
local rows = require "derived.rows"
local checks = require "derived.checks"

local only, verbose, quick = nil, false, false
for i = 1, #arg do
  if arg[i] == "--only" then only = arg[i + 1] end
  if arg[i] == "-v" then verbose = true end
  if arg[i] == "--quick" then quick = true end
end

local order = {
  "repeats", "strided", "broadcast", "empty", "dtypes", "inplace", "arguments", "gradient",
  "second",
}

-- What a row is excused from, with the reason.
local excused = {
  empty_like = { repeats = "its elements are undefined", strided = "as above",
    broadcast = "as above" },
  as_strided = { strided = "it reads the layout", broadcast = "it reads the layout" },
  view = { strided = "it needs a layout", broadcast = "it needs a layout" },
  empty = { repeats = "its elements are undefined", strided = "as above" },
}

local passed, failed, without = 0, 0, {}

local function run(row, name)
  if excused[row.name] and excused[row.name][name] then return end
  moth.manual_seed(20)
  local ok, problem = xpcall(checks[name], function(e)
    return verbose and debug.traceback(tostring(e), 2) or tostring(e)
  end, row)
  if ok and not problem then
    passed = passed + 1
    return
  end
  failed = failed + 1
  print(("FAILED %s (%s): %s: %s"):format(row.name, row.family, name, tostring(problem)))
end

for _, row in ipairs(rows.all()) do
  if not only or row.name == only then
    if row.items and row:callee() then
      for _, name in ipairs(order) do
        if not (quick and name == "second") then run(row, name) end
      end
    elseif not row.hidden then
      without[#without + 1] = row.name
    end
  end
end
if #without > 0 then
  print(("%d rows have no sample: %s"):format(#without, table.concat(without, " ")))
end
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0 and 0 or 1, true)
