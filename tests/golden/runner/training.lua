--- Optimisers and learning-rate schedulers.
local moth = require "moth"
local values = require "runner.values"
local compare = require "runner.compare"
local operations = require "runner.operations"

local M = {}

local function get_optimizer(name)
  local class = moth.optim[name]
  if not class then operations.missing(name) end
  return class
end

local function options_of(case, decoder)
  local options = {}
  for k, v in pairs(case.options or {}) do options[k] = decoder:value(v) end
  return options
end

-- The optimiser over p1 and p2, in groups if the case has some.
local function build(case, decoder, params)
  local class, list = get_optimizer(case.optimizer), { params.p1, params.p2 }
  if case.groups then
    list = {}
    for _, group in ipairs(case.groups) do
      local copy = {}
      for k, v in pairs(group) do copy[k] = v end
      copy.params = {}
      for i, name in ipairs(group.params) do copy.params[i] = params[name] end
      list[#list + 1] = copy
    end
  end
  return class(list, options_of(case, decoder))
end

local function loss_of(p, c)
  local d, e = p.p1 - c.C1, p.p2 - c.C2
  return (c.A * d * d):sum() * 0.5 + e:pow(4):sum() * 0.25
end

--- Ten steps on a fixed function; p1, p2 and the losses after each.
function M.optim(case, tensors)
  local decoder = values.new(tensors)
  local params, consts, seen = {}, {}, { p1 = {}, p2 = {}, loss = {} }
  for name, v in pairs(case.params) do
    params[name] = decoder:tensor(v.t):clone():requires_grad_(true)
  end
  for name, v in pairs(case.consts) do consts[name] = decoder:tensor(v.t) end
  local opt = build(case, decoder, params)
  for i = 1, case.steps do
    local loss = opt:step(function()
      opt:zero_grad()
      local l = loss_of(params, consts)
      l:backward()
      return l
    end)
    seen.loss[i] = loss:detach():reshape({})
    for _, name in ipairs { "p1", "p2" } do seen[name][i] = params[name]:detach():clone() end
  end
  for name, want in pairs(case.expect) do
    local problem = compare.value(moth.stack(seen[name], 1), want, case, decoder)
    if problem then return name .. ": " .. problem end
  end
end

local function scheduler(opt, spec, decoder)
  local module = moth.optim.lr_scheduler
  local class = module and module[spec.scheduler]
  if not class then operations.missing(spec.scheduler) end
  local options = options_of(spec, decoder)
  if spec.lr_lambda then options.lr_lambda = load(spec.lr_lambda)() end
  if spec.schedulers then
    options.schedulers = {}
    for i, part in ipairs(spec.schedulers) do
      options.schedulers[i] = scheduler(opt, part, decoder)
    end
  end
  return class(opt, options)
end

local function differs(got, want, case)
  for i, v in ipairs(want) do
    if not compare.close(got[i], v, case) then
      return ("after %d steps %s, should be %s"):format(i - 1, tostring(got[i]), v)
    end
  end
end

--- The learning rates that a scheduler sets.
function M.sched(case, tensors)
  local decoder = values.new(tensors)
  local p = moth.zeros(1):requires_grad_(true)
  local opt = get_optimizer("SGD")({ p }, { lr = case.base_lr, momentum = 0.9 })
  local s = scheduler(opt, case, decoder)
  local lr, momentum = { opt.param_groups[1].lr }, { opt.param_groups[1].momentum }
  for i = 1, case.steps do
    opt:step()
    if case.metrics then s:step(case.metrics[i]) else s:step() end
    lr[i + 1], momentum[i + 1] = opt.param_groups[1].lr, opt.param_groups[1].momentum
  end
  return differs(lr, case.expect.lr, case)
    or case.expect.momentum and differs(momentum, case.expect.momentum, case) or nil
end

return M
