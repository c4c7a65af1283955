--- Classes of modules: `nn.class`, instances, and the call of a module.
---
--- An instance is a plain table: parameters, children, buffers and any other values are ordinary
--- fields, so `self.fc1` costs one table access. `_order` notes the names in the order in which
--- they were first assigned; what a field is (parameter, child, buffer) is seen from its value when
--- somebody asks. Invariant: `training`, `_hooks`, `_order` and `_buffers` exist as raw fields.
local args = require "moth.args"
local hooks = require "moth.nn.hooks"

local M = {}

local rawget, rawset, setmetatable, getmetatable, type =
  rawget, rawset, setmetatable, getmetatable, type
local run_hooked = hooks.run

-- Tensors that were declared parameters. Weak: a parameter dies with its module.
local parameters = setmetatable({}, { __mode = "k" })

--- Declares a tensor a parameter: a leaf that requires grad and is found by `parameters()`.
---@param data moth.Tensor
---@param requires_grad? boolean default true
---@return moth.Tensor
function M.Parameter(data, requires_grad)
  if data.requires_grad then data = data:detach() end
  if requires_grad ~= false then data:requires_grad_(true) end
  parameters[data] = true
  return data
end

--- Whether a value is a parameter.
function M.is_parameter(v) return parameters[v] == true end

--- Whether a value is an instance of a module class.
function M.is_module(v)
  if type(v) ~= "table" then return false end
  local mt = getmetatable(v)
  return type(mt) == "table" and rawget(mt, "_module_class") == true
end

local function assign(self, key, value)
  local order = self._order
  if not order[key] and type(key) == "string" then
    order[#order + 1] = key
    order[key] = true
  end
  rawset(self, key, value)
end

local function call(self, ...)
  if self._hooks then return run_hooked(self, ...) end
  return self:forward(...)
end

local function construct(class, ...)
  local self = setmetatable({ training = true, _hooks = false, _order = {}, _buffers = {} }, class)
  local init = class.init
  if init then init(self, ...) end
  return self
end

-- Wraps the init of a class with declared arguments: values arrive by position, completed.
local function declared_init(sig, init)
  local device, dtype = sig.position.device, sig.position.dtype
  return function(self, ...)
    local values = sig:collect(...)
    rawset(self, "_sig", sig)
    rawset(self, "_args", values)
    init(self, table.unpack(values, 1, #sig.names))
    if dtype and values[dtype] then self:to(values[dtype]) end
    if device and values[device] then self:to(values[device]) end
  end
end

local function define(class, key, value)
  if key == "init" and rawget(class, "signature") then
    value = declared_init(class.signature, value)
  end
  rawset(class, key, value)
end

local inherited = { "__index", "__newindex", "__call", "__tostring", "__len", "__pairs" }

--- A new class of modules.
---
---     local Net = nn.class("Net")
---     function Net:init(hidden) self.fc = nn.Linear(784, hidden) end
---     function Net:forward(x) return self.fc(x) end
---     local net = Net(128)
---
--- `signature` declares the arguments of init ("size, bias=true"); they can then be passed by
--- position or by name, and `tostring` shows them.
---@param name string
---@param base? table the class to inherit from, default nn.Module
---@param signature? string
---@return table class
function M.class(name, base, signature)
  if type(name) ~= "string" then args.fail("nn.class: the name must be a string") end
  base = base or M.Module
  if base and rawget(base, "_module_class") ~= true then
    args.fail(("nn.class('%s'): the base is not a module class"):format(name))
  end
  local class = { __name = name, _module_class = true, base = base or nil }
  if base then
    for _, key in ipairs(inherited) do class[key] = rawget(base, key) end
  end
  if not base or rawget(base, "__index") == base then class.__index = class end
  class.signature = signature and args.parse(name, signature) or nil
  return setmetatable(class, {
    __index = base or nil,
    __call = construct,
    __newindex = define,
    __name = "moth.nn.class",
    __tostring = function() return "class " .. name end,
  })
end

M.Module = M.class("Module")
M.Module.__newindex = assign
M.Module.__call = call

return M
