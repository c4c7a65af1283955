--- Stochastic gradient descent, with momentum, Nesterov's variant and weight decay.
local moth = require "moth"
local optimizer = require "moth.optim.optimizer"

local sgd_step, trim = moth._C._sgd_step, optimizer.trim

--- optim.SGD(params, { lr, momentum, dampening, weight_decay, nesterov, maximize })
---
---     local opt = optim.SGD(model:parameters(), { lr = 0.1, momentum = 0.9 })
---@class moth.optim.SGD : moth.optim.Optimizer
local SGD = optimizer.class("SGD",
  "lr=0.001, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=false, maximize=false")

function SGD:check(group)
  optimizer.check_range(self, group, "lr", 0)
  optimizer.check_range(self, group, "momentum", 0)
  optimizer.check_range(self, group, "weight_decay", 0)
  if group.nesterov and (group.momentum == 0 or group.dampening ~= 0) then
    self._sig:fail("nesterov needs a momentum and no dampening")
  end
end

local none = {}

local function step(group, params, grads, buffers, first)
  sgd_step(params, grads, buffers, group.lr, group.momentum, group.dampening, group.weight_decay,
    group.nesterov, group.maximize, first)
end

-- Momentum buffers of the first n parameters; those without one yet come behind `old` others.
local function split(self, group, n)
  local params, grads, state = group._params, group._grads, self.state
  local buffers = group._buffers or {}
  group._buffers = buffers
  local old, new = 0, nil
  for i = 1, n do
    local p = params[i]
    local own = state[p]
    local buffer = own and own.momentum_buffer
    if buffer then
      old = old + 1
      params[old], grads[old], buffers[old] = p, grads[i], buffer
    else
      buffer = moth.empty_like(p)
      state[p] = { momentum_buffer = buffer }
      new = new or { {}, {}, {} }
      local k = #new[1] + 1
      new[1][k], new[2][k], new[3][k] = p, grads[i], buffer
    end
  end
  trim(params, old)
  trim(grads, old)
  trim(buffers, old)
  return old, new
end

function SGD:update(group)
  local n = self:gather(group)
  if n == 0 then return end
  if group.momentum == 0 then
    step(group, group._params, group._grads, none, false)
    return
  end
  local old, new = split(self, group, n)
  if old > 0 then step(group, group._params, group._grads, group._buffers, false) end
  if new then step(group, new[1], new[2], new[3], true) end
end

return SGD
