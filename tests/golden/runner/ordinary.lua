--- Ordinary cases: one call, its results, gradients, and gradients of gradients.
local moth = require "moth"
local values = require "runner.values"
local compare = require "runner.compare"
local operations = require "runner.operations"

local M = {}

-- The results that take part, with their cotangents.
local function roots(results, cot, decoder)
  local outputs, seeds = {}, {}
  for i, c in ipairs(cot) do
    if c then
      outputs[#outputs + 1] = results[i]
      seeds[#seeds + 1] = decoder:value(c)
    end
  end
  return outputs, seeds
end

local function gradient(outputs, seeds, leaves, create_graph)
  return moth.autograd.grad(outputs, leaves,
    { grad_outputs = seeds, create_graph = create_graph, allow_unused = true })
end

local function is_zero(t)
  for _, v in ipairs(compare.elements(t)) do
    if v ~= 0 then return false end
  end
  return true
end

-- Compares a gradient; `false` in the manifest: there is none (or it is zero, for second ones).
local function check(got, want, what, case, decoder, zero)
  if not want then
    if got and zero and not is_zero(got) then return what .. ": should be zero" end
    return nil
  end
  local expected = decoder:tensor(want.t)
  if not got then
    if is_zero(expected) then return nil end
    return what .. ": none"
  end
  local problem = compare.tensor(got, expected, case)
  return problem and what .. ": " .. problem
end

local function check_all(got, want, what, case, decoder, zero)
  for i, w in ipairs(want) do
    local problem = check(got[i], w, what .. " " .. i, case, decoder, zero)
    if problem then return problem end
  end
end

-- The graph of gradients: those that depend on a leaf, with the vectors that multiply them.
local function second(grads, case, decoder)
  local outputs, seeds = {}, {}
  for i, v in ipairs(case.gradvec) do
    if v and grads[i] and grads[i].requires_grad then
      outputs[#outputs + 1] = grads[i]
      seeds[#seeds + 1] = decoder:value(v)
    end
  end
  local result = {}
  if #outputs > 0 then result = gradient(outputs, seeds, decoder.leaves, false) end
  return check_all(result, case.gradgrads, "second gradient", case, decoder, true)
end

local function gradients(case, results, decoder)
  local outputs, seeds = roots(results, case.cot, decoder)
  local grads = gradient(outputs, seeds, decoder.leaves, case.gradgrads ~= nil)
  local problem = check_all(grads, case.grads, "gradient", case, decoder)
  if problem or not case.gradgrads then return problem end
  return second(grads, case, decoder)
end

local function call(case, decoder)
  local positional, keywords = decoder:arguments(case.args)
  if case.op:sub(-1) == "_" and moth.is_tensor(positional[1]) then
    positional[1] = positional[1]:clone()
  end
  return operations.call(case.op, values.pack(positional, keywords))
end

local function raises(case, decoder)
  local ok, e = pcall(call, case, decoder)
  if ok then return "should raise: " .. (case.note or "") end
  if type(e) == "table" then error(e, 0) end
  if not tostring(e):find("%w+.*%w+") then return "an empty message" end
end

--- nil, or what is wrong.
function M.run(case, tensors)
  local decoder = values.new(tensors)
  if case.raises then return raises(case, decoder) end
  local results = call(case, decoder)
  for i, want in ipairs(case.expect) do
    local problem = compare.value(results[i], want, case, decoder)
    if problem then return ("result %d: %s"):format(i, problem) end
  end
  if case.cot then return gradients(case, results, decoder) end
end

return M
