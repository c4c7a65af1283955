--- Comparing results with the vectors: dtype and shape exactly, values within a tolerance.
local moth = require "moth"

local M = {}

local function flatten(v, list)
  if type(v) == "table" then
    for i = 1, #v do flatten(v[i], list) end
  else
    list[#list + 1] = v
  end
  return list
end

--- All elements in row-major order.
function M.elements(t) return flatten(t:detach():tolist(), {}) end

local function shape_text(t) return "(" .. table.concat(t.shape, ", ") .. ")" end

-- Whether two numbers agree; `tol` has rtol, atol and signed_zero.
local function close(got, want, tol)
  if type(want) == "boolean" then return got == want end
  if got == want then
    if want == 0 and tol.signed_zero and math.type(want) == "float" then
      return 1 / got == 1 / want
    end
    return true
  end
  if want ~= want or got ~= got then return want ~= want and got ~= got end
  if math.abs(want) == math.huge or math.abs(got) == math.huge then return false end
  return math.abs(got - want) <= (tol.atol or 0) + (tol.rtol or 0) * math.abs(want)
end
M.close = close

local function values(got, want, tol)
  local a, b = M.elements(got), M.elements(want)
  local wrong, first = 0, nil
  for i = 1, #b do
    if not close(a[i], b[i], tol) then
      wrong = wrong + 1
      first = first or i
    end
  end
  if wrong == 0 then return nil end
  return ("%d of %d elements differ; element %d is %s, should be %s"):format(
    wrong, #b, first, tostring(a[first]), tostring(b[first]))
end

--- nil, or how the tensor differs.
function M.tensor(got, want, tol)
  if not moth.is_tensor(got) then
    return ("a %s (%s) instead of a tensor %s %s"):format(
      type(got), tostring(got), want.dtype, shape_text(want))
  end
  if got.dtype ~= want.dtype or shape_text(got) ~= shape_text(want) then
    return ("%s %s, should be %s %s"):format(
      got.dtype, shape_text(got), want.dtype, shape_text(want))
  end
  if want.dtype == "complex64" then
    return values(got:detach():real(), want:real(), tol)
      or values(got:detach():imag(), want:imag(), tol)
  end
  return values(got, want, tol)
end

-- Lists of numbers, such as shapes.
local function list(got, want)
  local a = type(got) == "table" and table.concat(flatten(got, {}), ", ") or tostring(got)
  local b = table.concat(flatten(want, {}), ", ")
  if a ~= b then return ("{%s}, should be {%s}"):format(a, b) end
end

--- nil, or how `got` differs from what the manifest says.
function M.value(got, want, case, decoder)
  if type(want) == "table" then
    if want.t then return M.tensor(got, decoder:tensor(want.t), case) end
    if want.list then return list(got, want.list) end
    if want.complex then
      return got and close(got, want.complex[1], case) and nil or "another number"
    end
    return list(got, want)
  end
  if moth.is_tensor(got) and got:numel() == 1 and type(want) ~= "string" then got = got:item() end
  if type(want) == "number" and type(got) == "number" then
    if math.type(want) ~= math.type(got) then
      return ("the %s %s, should be the %s %s"):format(
        math.type(got), got, math.type(want), want)
    end
    if close(got, want, case) then return nil end
  elseif got == want then
    return nil
  end
  return ("%s, should be %s"):format(tostring(got), tostring(want))
end

return M
