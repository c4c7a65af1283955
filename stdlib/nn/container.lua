--- Modules that hold modules. Those of a list stand at 1, 2, ... and can be read, replaced and
--- appended there; their names in a state dict are "0", "1", ... as in PyTorch, or the given ones.
local args = require "moth.args"
local class = require "moth.nn.class"
local Module = require "moth.nn.module"

local M = {}
local is_module, is_parameter = class.is_module, class.is_parameter
local module_members = Module._each_member

--- What Sequential, ModuleList and ParameterList share. `_names[i]` is a name that was given.
local List = class.class("List")

function List:_name_of(i) return self._names[i] or tostring(i - 1) end

function List:_each_member(f)
  module_members(self, f)
  for i = 1, #self do
    local value = self[i]
    if is_parameter(value) then
      f(self:_name_of(i), value, "parameter")
    elseif is_module(value) then
      f(self:_name_of(i), value, "child")
    end
  end
end

-- Names, and positions from the end: list[-1], seq.fc.
function List.__index(self, key)
  local value = getmetatable(self)[key]
  if value ~= nil then return value end
  if math.type(key) == "integer" then
    if key < 0 then return rawget(self, #self + 1 + key) end
    return nil
  end
  local names = rawget(self, "_names")
  if names then
    for i = 1, #self do
      if self:_name_of(i) == key then return rawget(self, i) end
    end
  end
  return nil
end

-- Writing to a name that a child has replaces the child.
local assign = Module.__newindex
function List.__newindex(self, key, value)
  local names = type(key) == "string" and rawget(self, "_names")
  if names then
    for i = 1, #self do
      if self:_name_of(i) == key then
        rawset(self, i, value)
        return
      end
    end
  elseif math.type(key) == "integer" and key < 0 then
    key = #self + 1 + key
  end
  assign(self, key, value)
end

function List:_check(value)
  if not is_module(value) then
    args.fail(("%s: expected a module, got a %s"):format(getmetatable(self).__name, type(value)))
  end
  return value
end

--- Adds one at the end; returns the list.
function List:append(value)
  self[#self + 1] = self:_check(value)
  return self
end

--- Adds all of a list at the end; returns the list.
function List:extend(values)
  for i = 1, #values do self:append(values[i]) end
  return self
end

--- Puts one in at a position, moving the later ones up; returns the list.
function List:insert(position, value)
  if math.type(position) ~= "integer" or position < 1 or position > #self + 1 then
    args.fail(("insert: the position must be from 1 to %d"):format(#self + 1))
  end
  self:_check(value)
  for i = #self, position, -1 do
    rawset(self, i + 1, self[i])
    self._names[i + 1] = self._names[i]
  end
  self._names[position] = nil
  rawset(self, position, value)
  return self
end

--- Adds a child under a name of its own.
function List:add_module(name, module)
  self._names[#self + 1] = name
  return self:append(module)
end

-- Fills from {m1, m2}, {{"name", m1}, ...} or an ordered table.
local function fill(self, given)
  if #given == 0 then
    for name, module in pairs(given) do self:add_module(name, module) end
  end
  for i = 1, #given do
    local item = given[i]
    if type(item) == "table" and getmetatable(item) == nil then
      self:add_module(item[1], item[2])
    else
      self:append(item)
    end
  end
end

--- Modules in a row: each takes what the one before gave.
---
---     nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
---     nn.Sequential { { "fc", nn.Linear(784, 10) }, { "act", nn.ReLU() } }   -- with names
---@class moth.nn.Sequential : moth.nn.Module
M.Sequential = class.class("Sequential", List)

function M.Sequential:init(...)
  rawset(self, "_names", {})
  local first = ...
  if select("#", ...) == 1 and type(first) == "table" and not is_module(first) then
    fill(self, first)
  else
    for _, module in ipairs { ... } do self:append(module) end
  end
end

function M.Sequential:forward(x, ...)
  local n = #self
  if n == 0 then return x, ... end
  x = self[1](x, ...)
  for i = 2, n do
    local module = self[i]
    if module._hooks then x = module(x) else x = module:forward(x) end
  end
  return x
end

--- A list of modules: `for i, layer in ipairs(self.layers) do x = layer(x) end`.
---@class moth.nn.ModuleList : moth.nn.Module
M.ModuleList = class.class("ModuleList", List)

function M.ModuleList:init(modules)
  rawset(self, "_names", {})
  if modules then fill(self, modules) end
end

--- A list of parameters; plain tensors become parameters.
---@class moth.nn.ParameterList : moth.nn.Module
M.ParameterList = class.class("ParameterList", List)

function M.ParameterList:_check(value)
  if type(value) ~= "userdata" then
    args.fail("ParameterList: expected a tensor, got a " .. type(value))
  end
  return is_parameter(value) and value or class.Parameter(value)
end

function M.ParameterList:init(parameters)
  rawset(self, "_names", {})
  if parameters then self:extend(parameters) end
end

function M.ParameterList:extra_repr() return #self .. " parameters" end

--- Modules by name: a field each, in the order given (a plain table: sorted by name).
---
---     local heads = nn.ModuleDict { { "value", nn.Linear(8, 1) }, { "policy", nn.Linear(8, 4) } }
---     heads.value(x)
---@class moth.nn.ModuleDict : moth.nn.Module
M.ModuleDict = class.class("ModuleDict")

function M.ModuleDict:init(modules)
  if modules then self:update(modules) end
end

--- Adds modules from {{"name", module}, ...} or {name = module}; returns the dict.
function M.ModuleDict:update(modules)
  for _, item in ipairs(modules) do self:add_module(item[1], item[2]) end
  if #modules > 0 then return self end
  local names = {}
  for name in pairs(modules) do names[#names + 1] = name end
  if getmetatable(modules) == nil then table.sort(names) end
  for _, name in ipairs(names) do self:add_module(name, modules[name]) end
  return self
end

--- The names, in order.
---@return string[]
function M.ModuleDict:keys()
  local names = {}
  for name in self:named_children() do names[#names + 1] = name end
  return names
end

--- Iterates over names and modules.
function M.ModuleDict:items() return self:named_children() end

--- Whether there is a module of that name.
function M.ModuleDict:contains(name) return is_module(rawget(self, name)) end

return M
