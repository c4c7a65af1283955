--- nn.Module: what every module can do. Parameters, children and buffers are found by looking at
--- the fields in the order of their first assignment (see class.lua); a tensor or module that is
--- reached twice is listed once, under its first name.
local class = require "moth.nn.class"
local hooks = require "moth.nn.hooks"
local args = require "moth.args"

---@class moth.nn.Module
---@field training boolean
local Module = class.Module

local is_parameter, is_module = class.is_parameter, class.is_module
local concat = table.concat

--- Calls f(name, value, kind) for each own parameter, buffer and child, kind being "parameter",
--- "buffer" or "child".
function Module:_each_member(f)
  local buffers = self._buffers
  for _, name in ipairs(self._order) do
    local value = rawget(self, name)
    if value ~= nil then
      if buffers[name] ~= nil then
        f(name, value, "buffer")
      elseif is_parameter(value) then
        f(name, value, "parameter")
      elseif is_module(value) then
        f(name, value, "child")
      end
    end
  end
end

local function join(prefix, name) return prefix == "" and name or prefix .. "." .. name end

-- Fills names and modules in depth-first order, each module once.
local function gather_modules(self, prefix, seen, names, modules)
  if seen[self] then return end
  seen[self] = true
  names[#names + 1], modules[#modules + 1] = prefix, self
  self:_each_member(function(name, value, kind)
    if kind == "child" then gather_modules(value, join(prefix, name), seen, names, modules) end
  end)
end

-- Names and values of all members of one kind, of this module and those below.
local function gather(self, wanted, prefix, recurse)
  local prefixes, modules = {}, {}
  if recurse == false then
    prefixes[1], modules[1] = prefix or "", self
  else
    gather_modules(self, prefix or "", {}, prefixes, modules)
  end
  local names, values, seen = {}, {}, {}
  for i, module in ipairs(modules) do
    module:_each_member(function(name, value, kind)
      if kind == wanted and not seen[value] then
        seen[value] = true
        names[#names + 1], values[#values + 1] = join(prefixes[i], name), value
      end
    end)
  end
  return names, values
end

local function iterate(names, values)
  local i = 0
  return function()
    i = i + 1
    return names[i], values[i]
  end
end

--- All parameters as a list, in order.
---@param recurse? boolean false: only this module's own
---@return moth.Tensor[]
function Module:parameters(recurse)
  local _, values = gather(self, "parameter", "", recurse)
  return values
end

--- Iterates over names and parameters: `for name, p in net:named_parameters() do`.
---@param prefix? string
---@param recurse? boolean
function Module:named_parameters(prefix, recurse)
  return iterate(gather(self, "parameter", prefix, recurse))
end

--- All buffers as a list, in order.
---@return moth.Tensor[]
function Module:buffers(recurse)
  local _, values = gather(self, "buffer", "", recurse)
  return values
end

--- Iterates over names and buffers.
function Module:named_buffers(prefix, recurse)
  return iterate(gather(self, "buffer", prefix, recurse))
end

--- The direct children as a list.
function Module:children()
  local _, values = gather(self, "child", "", false)
  return values
end

--- Iterates over names and direct children.
function Module:named_children()
  return iterate(gather(self, "child", "", false))
end

--- This module and all below as a list, depth first.
function Module:modules()
  local names, modules = {}, {}
  gather_modules(self, "", {}, names, modules)
  return modules
end

--- Iterates over names and modules; the name of this module itself is "".
function Module:named_modules(prefix)
  local names, modules = {}, {}
  gather_modules(self, prefix or "", {}, names, modules)
  return iterate(names, modules)
end

local function check_name(self, what, name)
  if type(name) ~= "string" or name == "" or name:find(".", 1, true) then
    args.fail(("%s: the name must be a string without dots, got '%s'"):format(what, tostring(name)))
  elseif self[name] ~= nil and self._buffers[name] == nil and not is_parameter(self[name])
    and not is_module(self[name]) then
    args.fail(("%s: the module already has a field '%s'"):format(what, name))
  end
end

--- Adds a tensor that is part of the module's state but not trained.
---@param name string
---@param tensor moth.Tensor|nil
---@param options? { persistent: boolean } false: left out of state_dict
function Module:register_buffer(name, tensor, options)
  check_name(self, "register_buffer", name)
  local persistent = options == nil or options == true
    or (type(options) == "table" and options.persistent ~= false)
  self._buffers[name] = persistent
  self[name] = tensor
end

--- Adds a parameter under a name; the same as assigning it to a field.
function Module:register_parameter(name, parameter)
  check_name(self, "register_parameter", name)
  if parameter ~= nil and not is_parameter(parameter) then
    args.fail("register_parameter: make the tensor a parameter with nn.Parameter first")
  end
  self[name] = parameter
end

--- Adds a child under a name; the same as assigning it to a field.
function Module:add_module(name, module)
  check_name(self, "add_module", name)
  if module ~= nil and not is_module(module) then
    args.fail("add_module: not a module: " .. type(module))
  end
  self[name] = module
end
Module.register_module = Module.add_module

--- Sets training mode here and in all modules below; returns the module.
---@param mode? boolean default true
function Module:train(mode)
  if mode == nil then mode = true end
  for _, module in ipairs(self:modules()) do module.training = mode end
  return self
end

--- Sets evaluation mode; returns the module.
function Module:eval() return self:train(false) end

--- Calls f(module) for every module below and then for this one; returns the module.
---@param f fun(module: moth.nn.Module)
function Module:apply(f)
  for _, child in ipairs(self:children()) do child:apply(f) end
  f(self)
  return self
end

--- Forgets the gradients of all parameters (with set_to_none=false they are filled with zeros).
---@param options? { set_to_none: boolean }
function Module:zero_grad(options)
  local fill = options == false or (type(options) == "table" and options.set_to_none == false)
  for _, p in ipairs(self:parameters()) do
    if fill and p.grad then p.grad:detach():zero_() else p.grad = nil end
  end
end

--- Switches gradients of all parameters on or off; returns the module.
---@param on? boolean default true
function Module:requires_grad_(on)
  for _, p in ipairs(self:parameters()) do p:requires_grad_(on ~= false) end
  return self
end

--- Calls f(module, inputs) before forward; a result that is not nil replaces the inputs (a list).
function Module:register_forward_pre_hook(f) return hooks.add(self, "pre", f) end

--- Calls f(module, inputs, output) after forward; a result that is not nil replaces the output.
--- Several outputs are handed over as a list.
function Module:register_forward_hook(f) return hooks.add(self, "post", f) end

--- Calls f(module, grad_inputs, grad_outputs) when gradients have flowed through the module; a
--- result that is not nil replaces the gradients of the inputs. Both are lists with holes.
function Module:register_full_backward_hook(f) return hooks.add(self, "back", f) end

--- What stands between the parentheses of `tostring`; a subclass may define its own.
---@return string
function Module:extra_repr()
  local sig = rawget(self, "_sig")
  return sig and sig:describe(self._args) or ""
end

local function indent(text) return (text:gsub("\n", "\n  ")) end

function Module:__tostring()
  local name, extra, lines = getmetatable(self).__name, self:extra_repr(), {}
  self:_each_member(function(key, value, kind)
    if kind == "child" then
      lines[#lines + 1] = ("  (%s): %s"):format(key, indent(tostring(value)))
    end
  end)
  if #lines == 0 then return ("%s(%s)"):format(name, extra) end
  if extra ~= "" then table.insert(lines, 1, "  " .. extra) end
  return ("%s(\n%s\n)"):format(name, concat(lines, "\n"))
end

--- Every class says what it computes.
function Module:forward()
  args.fail(getmetatable(self).__name .. ": no forward is defined for this class")
end

require "moth.nn.state"

return Module
