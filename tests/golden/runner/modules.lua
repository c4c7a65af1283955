--- Modules: built, loaded, called one after the other, with gradients of inputs and parameters.
local moth = require "moth"
local values = require "runner.values"
local compare = require "runner.compare"
local operations = require "runner.operations"

local M = {}

--- A module of a class by name, nil and an error of kind "missing" when there is none.
function M.build(name, ctor)
  local class = moth.nn[name]
  if not class then operations.missing(name) end
  local options = {}
  for k, v in pairs(ctor) do options[k] = v end
  return class(options)
end

-- What a manifest's list of arguments means to a module: a tuple is a list.
local function load(module, case, decoder)
  local dict = {}
  for _, part in ipairs { case.params or {}, case.buffers or {} } do
    for name, v in pairs(part) do dict[name] = decoder:tensor(v.t) end
  end
  for _, v in pairs(dict) do
    if v:is_floating_point() then
      module:to(v.dtype)
      break
    end
  end
  module:load_state_dict(dict)
  if case.train then module:train() else module:eval() end
end

local function flatten(v, list)
  if type(v) == "table" then
    for i = 1, #v do flatten(v[i], list) end
  else
    list[#list + 1] = v
  end
  return list
end

local function check(got, want, what, case, decoder)
  if not want then return nil end
  local expected = decoder:tensor(want.t)
  if not got then
    for _, v in ipairs(compare.elements(expected)) do
      if v ~= 0 then return what .. ": none" end
    end
    return nil
  end
  local problem = compare.tensor(got, expected, case)
  return problem and what .. ": " .. problem
end

local function backward(call, results, parameters, case, decoder)
  local outputs, seeds, wanted, names = {}, {}, {}, {}
  for i, c in ipairs(call.cot) do
    if c then
      outputs[#outputs + 1], seeds[#seeds + 1] = results[i], decoder:value(c)
    end
  end
  for i, leaf in ipairs(decoder.leaves) do wanted[i] = leaf end
  for name, p in pairs(parameters) do
    wanted[#wanted + 1] = p
    names[#names + 1] = name
  end
  local grads = moth.autograd.grad(outputs, wanted,
    { grad_outputs = seeds, allow_unused = true, retain_graph = false })
  for i, want in ipairs(call.grads or {}) do
    local problem = check(grads[i], want, "gradient " .. i, case, decoder)
    if problem then return problem end
  end
  for i, name in ipairs(names) do
    local want = call.param_grads and call.param_grads[name]
    local problem = check(grads[#decoder.leaves + i], want, "gradient of " .. name, case, decoder)
    if problem then return problem end
  end
end

local function one_call(module, call, case, decoder)
  decoder.leaves = {}
  local args = values.pack(decoder:arguments(call.args))
  local results = flatten(table.pack(module(table.unpack(args, 1, args.n))), {})
  for i, want in ipairs(call.expect) do
    local problem = compare.value(results[i], want, case, decoder)
    if problem then return ("result %d: %s"):format(i, problem) end
  end
  if not call.cot then return nil end
  local parameters = {}
  for name, p in module:named_parameters() do parameters[name] = p end
  return backward(call, results, parameters, case, decoder)
end

function M.run(case, tensors)
  local decoder = values.new(tensors)
  local ctor = {}
  for k, v in pairs(case.ctor) do ctor[k] = decoder:value(v) end
  local module = M.build(case.module, ctor)
  load(module, case, decoder)
  for i, call in ipairs(case.calls) do
    local problem = one_call(module, call, case, decoder)
    if problem then return ("call %d: %s"):format(i, problem) end
  end
  local state = case.buffers_after and module:state_dict()
  for name, want in pairs(case.buffers_after or {}) do
    local problem = compare.value(state[name], want, case, decoder)
    if problem then return ("buffer %s: %s"):format(name, problem) end
  end
end

return M
