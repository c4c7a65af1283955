--- Programs: several steps on variables, checked at the end.
local moth = require "moth"
local values = require "runner.values"
local compare = require "runner.compare"
local operations = require "runner.operations"

local M = {}

local steps = {}

function steps.backward(x, gradient, options)
  if type(gradient) == "table" then gradient, options = nil, gradient end
  x:backward(gradient, options)
end

function steps.autograd_grad(y, leaves, options)
  return table.unpack(moth.autograd.grad(y, leaves, options))
end

function steps.grad(x) return x.grad end
function steps.zero_grad(x) x.grad = nil end
function steps.is_contiguous(x) return x:is_contiguous() end
function steps.storage_offset(x) return x:storage_offset() end

-- Two tensors share elements when a write to one is seen in the other.
function steps.shares_storage(x, y)
  return moth.no_grad(function()
    local before = y._version
    x:detach():mul_(1)
    return y._version ~= before
  end)
end

function steps.no_grad_add_(x, y)
  return moth.no_grad(function() return x:add_(y) end)
end

function steps.no_grad_mul(x, y)
  return moth.no_grad(function() return x * y end)
end

local function run_step(step, decoder)
  local positional, keywords = decoder:arguments(step.args)
  local args = values.pack(positional, keywords)
  if steps[step.op] then return table.pack(steps[step.op](table.unpack(args, 1, args.n))) end
  return operations.call(step.op, args)
end

local function inputs(case, decoder)
  for name, v in pairs(case.inputs) do
    local t = decoder:tensor(v.t):clone()
    if v.grad then t:requires_grad_(true) end
    decoder.vars[name] = t
  end
end

local function check_end(case, decoder)
  for name, want in pairs(case.expect) do
    local problem = compare.value(decoder.vars[name], want, case, decoder)
    if problem then return name .. ": " .. problem end
  end
  for name, want in pairs(case.grads or {}) do
    local g = decoder.vars[name].grad
    local problem
    if want then
      problem = g and compare.value(g, want, case, decoder) or (not g and "none" or nil)
    elseif g then
      problem = "there should be none"
    end
    if problem then return ("gradient of %s: %s"):format(name, problem) end
  end
end

function M.run(case, tensors)
  local decoder = values.new(tensors)
  inputs(case, decoder)
  for i, step in ipairs(case.steps) do
    local ok, results = pcall(run_step, step, decoder)
    if step.raises then
      if ok then return ("step %d (%s) should raise: %s"):format(i, step.op, case.note or "") end
      if type(results) == "table" then error(results, 0) end
      return check_end(case, decoder)
    end
    if not ok then error(results, 0) end
    for k, name in ipairs(step.ret or {}) do decoder.vars[name] = results[k] end
  end
  return check_end(case, decoder)
end

return M
