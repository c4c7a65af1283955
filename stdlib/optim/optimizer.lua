--- What all optimisers share: parameter groups, zero_grad, state and its saving.
---
--- An optimiser has `param_groups`, a list of tables {params = {...}, lr = ..., ...} whose numbers
--- may be changed at any time, and `state`, a table from parameter to what the optimiser remembers
--- of it. A subclass says its options and defaults in a signature, checks them in `check(group)`
--- and steps in `update(group)`.
local moth = require "moth"
local args = require "moth.args"

local M = {}

---@class moth.optim.Optimizer
---@field param_groups table[]
---@field state table<moth.Tensor, table>
local Optimizer = { __name = "Optimizer" }
Optimizer.__index = Optimizer
M.Optimizer = Optimizer

local function check_params(name, params)
  if type(params) == "userdata" then params = { params } end
  if type(params) ~= "table" then
    args.fail(("%s: expected a list of tensors, got a %s"):format(name, type(params)))
  end
  for i, p in ipairs(params) do
    if type(p) ~= "userdata" then
      args.fail(("%s: parameter %d is a %s, not a tensor"):format(name, i, type(p)))
    elseif not p.is_leaf then
      args.fail(("%s: parameter %d is not a leaf, it was computed; gradients do not reach it")
        :format(name, i))
    end
  end
  return params
end

-- Options of a group: the given ones, checked, over the defaults of the optimiser.
local function complete(self, given)
  local group = { params = check_params(self.__name, given.params) }
  for key, value in pairs(self.defaults) do group[key] = value end
  for key, value in pairs(given) do
    if key ~= "params" then
      if self._sig.position[key] == nil then
        self._sig:fail(("unknown option '%s' (the options are: %s)"):format(
          tostring(key), table.concat(self._sig.names, ", ")))
      end
      group[key] = value
    end
  end
  for name in pairs(self._sig.required) do
    if group[name] == nil then self._sig:fail(("option '%s' is missing"):format(name)) end
  end
  self:check(group)
  return group
end

--- Adds a group of parameters with options of its own.
---@param group table {params = {...}, lr = ...}
function Optimizer:add_param_group(group)
  if type(group) ~= "table" or group.params == nil then
    args.fail(self.__name .. ": a parameter group needs a field 'params'")
  end
  local new = complete(self, group)
  for i, p in ipairs(new.params) do
    if self._known[p] then
      args.fail(("%s: parameter %d of the group is in the optimiser already"):format(
        self.__name, i))
    end
    self._known[p] = true
  end
  self.param_groups[#self.param_groups + 1] = new
end

-- Subclasses override both.
function Optimizer:check() end
function Optimizer:update() args.fail(self.__name .. ": no update is defined") end

--- Forgets the gradients; with set_to_none=false they are filled with zeros instead.
---@param options? { set_to_none: boolean }
function Optimizer:zero_grad(options)
  local fill = options and options.set_to_none == false
  for _, group in ipairs(self.param_groups) do
    local params = group.params
    for i = 1, #params do
      local p = params[i]
      if not fill then
        p.grad = nil
      elseif p.grad then
        p.grad:detach():zero_()
      end
    end
  end
end

--- One step for all parameters that have a gradient. A closure, if given, computes the loss and the
--- gradients anew and returns the loss, which `step` returns.
---@param closure? fun(): moth.Tensor
function Optimizer:step(closure)
  local loss = closure and closure()
  local _ <close> = moth.no_grad()
  local groups = self.param_groups
  for i = 1, #groups do self:update(groups[i]) end
  return loss
end

--- Collects what has a gradient in two lists that are kept between steps: group._params and
--- group._grads. Returns how many there are.
function Optimizer:gather(group)
  local kept, grads = group._params, group._grads
  if not kept then
    kept, grads = {}, {}
    group._params, group._grads = kept, grads
  end
  local params, n = group.params, 0
  for i = 1, #params do
    local grad = params[i].grad
    if grad then
      n = n + 1
      kept[n], grads[n] = params[i], grad
    end
  end
  M.trim(kept, n)
  M.trim(grads, n)
  return n
end

-- Calls f(parameter, number) in the order in which state dicts count parameters (from 0).
local function each_parameter(self, f)
  local number = 0
  for _, group in ipairs(self.param_groups) do
    for _, p in ipairs(group.params) do
      f(p, number)
      number = number + 1
    end
  end
end

--- State and options in a table that can be saved: {state = {[number] = {...}}, param_groups =
--- {{params = {numbers}, lr = ...}, ...}}. Parameters are numbered from 0, as in PyTorch.
function Optimizer:state_dict()
  local dict = { state = {}, param_groups = {} }
  local numbers = {}
  each_parameter(self, function(p, number)
    numbers[p] = number
    local own = self.state[p]
    if own then
      local copy = {}
      for key, value in pairs(own) do copy[key] = value end
      dict.state[number] = copy
    end
  end)
  for i, group in ipairs(self.param_groups) do
    local copy = {}
    for key, value in pairs(group) do
      if key:sub(1, 1) ~= "_" then copy[key] = value end
    end
    copy.params = {}
    for j, p in ipairs(group.params) do copy.params[j] = numbers[p] end
    dict.param_groups[i] = copy
  end
  return dict
end

local function check_groups(self, dict)
  if type(dict) ~= "table" or type(dict.param_groups) ~= "table" or type(dict.state) ~= "table" then
    args.fail(self.__name .. ": load_state_dict: not the state of an optimiser")
  end
  if #dict.param_groups ~= #self.param_groups then
    args.fail(("%s: load_state_dict: the state has %d parameter groups, the optimiser %d"):format(
      self.__name, #dict.param_groups, #self.param_groups))
  end
  for i, group in ipairs(self.param_groups) do
    local saved = dict.param_groups[i].params
    if type(saved) ~= "table" or #saved ~= #group.params then
      args.fail(("%s: load_state_dict: group %d of the state has %s parameters, the optimiser's %d")
        :format(self.__name, i, type(saved) == "table" and #saved or "no", #group.params))
    end
  end
end

-- Copies what was saved for one parameter; tensors of its size take its dtype.
local function adopt(p, saved)
  local own = {}
  for key, value in pairs(saved) do
    if type(value) == "userdata" then
      value = value:detach():clone()
      if value:numel() == p:numel() and value.dtype ~= p.dtype then value = value:to(p.dtype) end
    end
    own[key] = value
  end
  return own
end

--- Takes over a state as `state_dict` gave it, options included.
function Optimizer:load_state_dict(dict)
  check_groups(self, dict)
  local state = setmetatable({}, getmetatable(self.state))
  for i, group in ipairs(self.param_groups) do
    local saved = dict.param_groups[i]
    for j, p in ipairs(group.params) do
      local own = dict.state[saved.params[j]]
      if own then state[p] = adopt(p, own) end
    end
    for key, value in pairs(saved) do
      if key ~= "params" then group[key] = value end
    end
  end
  self.state = state
end

function Optimizer:__tostring()
  local lines = {}
  for i, group in ipairs(self.param_groups) do
    local parts = { ("%d parameters"):format(#group.params) }
    for _, name in ipairs(self._sig.names) do
      local value = group[name]
      if type(value) == "table" then value = "{" .. table.concat(value, ", ") .. "}" end
      if value ~= nil then parts[#parts + 1] = name .. "=" .. tostring(value) end
    end
    lines[i] = ("  group %d: %s"):format(i, table.concat(parts, ", "))
  end
  return ("%s(\n%s\n)"):format(self.__name, table.concat(lines, "\n"))
end

local function construct(class, params, ...)
  local self = setmetatable({ param_groups = {}, state = {}, _known = {} }, class)
  local values = class._sig:collect(...)
  self.defaults = {}
  for i, name in ipairs(class._sig.names) do self.defaults[name] = values[i] end
  if type(params) == "table" and type(params[1]) == "table" then
    for _, group in ipairs(params) do self:add_param_group(group) end
  else
    params = check_params(class.__name, params)
    if #params == 0 then args.fail(class.__name .. ": the list of parameters is empty") end
    self:add_param_group { params = params }
  end
  return self
end

--- A new class of optimisers; `signature` declares its options after the parameters.
---
---     local Plain = optim.class("Plain", "lr=0.01")
---     function Plain:update(group)
---       for _, p in ipairs(group.params) do
---         if p.grad then p:sub_(p.grad, { alpha = group.lr }) end
---       end
---     end
---@param name string
---@param signature string
function M.class(name, signature)
  local class = { __name = name, __tostring = Optimizer.__tostring }
  class.__index = class
  class._sig = args.parse(name, signature)
  return setmetatable(class, { __index = Optimizer, __call = construct })
end

--- Cuts a list down to its first n.
function M.trim(list, n)
  for i = #list, n + 1, -1 do list[i] = nil end
end

--- Raises unless the option is at least `least` (and below `below`, if given).
function M.check_range(self, group, key, least, below)
  local v = group[key]
  if type(v) ~= "number" or not (v >= least) or (below and not (v < below)) then
    args.fail(("%s: %s must be %s%s, got %s"):format(self.__name, key,
      ("at least %g"):format(least), below and (" and below %g"):format(below) or "", tostring(v)))
  end
end

return M
