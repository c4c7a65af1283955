-- check.lua - what the Lua tests need: named tests, comparisons, expected errors.
--
--     check.test("view keeps the storage alive", function() check.equal(x:size(1), 3) end)
--     check.raises("start at 1", function() return x[0] end)
--     check.close(loss, 0.5, 1e-6)
--     check.done()
--
-- A test that fails is reported with its place and the file goes on; check.done() makes the process
-- fail. Values may be numbers, strings, booleans, nested tables and tensors; a tensor equals nested
-- tables with its elements.
local M = {}

local moth = require "moth"
local failures, passed = 0, 0

local function plain(v)
  if moth.is_tensor(v) then return v.ndim == 0 and v:item() or v:tolist() end
  return v
end

local function text(v)
  v = plain(v)
  if type(v) ~= "table" then return type(v) == "string" and ("%q"):format(v) or tostring(v) end
  local parts = {}
  for i, e in ipairs(v) do parts[i] = text(e) end
  for k, e in pairs(v) do
    if math.type(k) ~= "integer" or k < 1 or k > #parts then
      parts[#parts + 1] = tostring(k) .. "=" .. text(e)
    end
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

local function near(a, b, tolerance)
  if a == b or (a ~= a and b ~= b) then return true end
  return math.abs(a - b) <= tolerance * math.max(1, math.abs(b))
end

local function same(a, b, tolerance)
  a, b = plain(a), plain(b)
  if type(a) == "number" and type(b) == "number" then
    if tolerance then return near(a, b, tolerance) end
    return a == b or (a ~= a and b ~= b)
  end
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  for k in pairs(a) do
    if not same(a[k], b[k], tolerance) then return false end
  end
  for k in pairs(b) do
    if a[k] == nil then return false end
  end
  return true
end

local function complain(message, level)
  error(message, level + 1)
end

--- The value is true (not nil or false).
function M.that(value, message)
  if not value then complain(message and tostring(message) or "condition is false", 2) end
end

--- Both are the same, element by element; NaN equals NaN.
function M.equal(got, expected, message)
  if same(got, expected) then return end
  complain(("%sexpected %s, got %s"):format(message and message .. ": " or "", text(expected),
    text(got)), 2)
end
M.eq = M.equal

--- Numbers differ by at most `tolerance` (1e-6), relative above 1.
function M.close(got, expected, tolerance, message)
  if same(got, expected, tolerance or 1e-6) then return end
  complain(("%sexpected %s, got %s"):format(message and message .. ": " or "", text(expected),
    text(got)), 2)
end

--- f(...) raises an error whose text matches the pattern; returns the text.
function M.raises(pattern, f, ...)
  local ok, message = pcall(f, ...)
  if ok then complain(("no error, expected one like %q"):format(pattern), 2) end
  message = tostring(message)
  if not message:find(pattern) then
    complain(("expected an error like %q, got %q"):format(pattern, message), 2)
  end
  return message
end

--- Runs a test; an error in it is reported and counted.
function M.test(name, f)
  local ok, message = xpcall(f, function(e) return debug.traceback(tostring(e), 2) end)
  if ok then
    passed = passed + 1
  else
    failures = failures + 1
    local file = (arg and arg[0] or "?"):match "[^/]*$"
    io.stderr:write(("FAILED %s: %s\n%s\n"):format(file, name, message))
  end
end

--- The last line of a test file.
function M.done()
  local file = (arg and arg[0] or "?"):match "[^/]*$"
  if failures > 0 then
    io.stderr:write(("%s: %d of %d tests failed\n"):format(file, failures, failures + passed))
    os.exit(1, true)
  end
  print(("%s: %d tests passed"):format(file, passed))
end

return M
