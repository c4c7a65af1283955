--- State of modules: state_dict, load_state_dict, and moving between dtypes and devices.
---
--- A state dict is an ordered table from names as in PyTorch ("fc1.weight", "0.running_mean") to
--- tensors that share the elements of the module. Loading checks everything before it writes.
local moth = require "moth"
local args = require "moth.args"
local class = require "moth.nn.class"
local ordered = require "moth.ordered"

local Module = class.Module
local concat = table.concat

local function save_into(self, prefix, dict)
  self:_each_member(function(name, value, kind)
    if kind == "parameter" or (kind == "buffer" and self._buffers[name]) then
      dict[prefix .. name] = value:detach()
    end
  end)
  self:_each_member(function(name, value, kind)
    if kind == "child" then save_into(value, prefix .. name .. ".", dict) end
  end)
end

--- All parameters and persistent buffers by name, in order. The tensors share their elements with
--- the module; clone them to keep a copy.
---@param prefix? string
---@return table<string, moth.Tensor>
function Module:state_dict(prefix)
  local dict = ordered.new()
  save_into(self, prefix or "", dict)
  return dict
end

local function shape_text(t) return "(" .. concat(t.shape, ", ") .. ")" end

local function same_shape(a, b)
  local s, r = a.shape, b.shape
  if #s ~= #r then return false end
  for i = 1, #s do
    if s[i] ~= r[i] then return false end
  end
  return true
end

local function compare(own, dict)
  local missing, unexpected, wrong = {}, {}, {}
  for name, tensor in pairs(own) do
    local given = dict[name]
    if given == nil then
      missing[#missing + 1] = name
    elseif type(given) ~= "userdata" then
      wrong[#wrong + 1] = ("%s: expected a tensor, got a %s"):format(name, type(given))
    elseif not same_shape(tensor, given) then
      wrong[#wrong + 1] = ("%s: the module has %s, the state dict %s"):format(
        name, shape_text(tensor), shape_text(given))
    end
  end
  for name in pairs(dict) do
    if own[name] == nil then unexpected[#unexpected + 1] = tostring(name) end
  end
  table.sort(unexpected)
  return missing, unexpected, wrong
end

--- Copies the values of a state dict into the module. Missing or unexpected names raise unless
--- strict is false; different shapes always raise. When it raises, nothing has been changed.
---@param dict table<string, moth.Tensor>
---@param options? { strict: boolean }
---@return { missing_keys: string[], unexpected_keys: string[] }
function Module:load_state_dict(dict, options)
  if type(dict) ~= "table" then
    args.fail("load_state_dict: expected a table of tensors, got a " .. type(dict))
  end
  local strict = options ~= false and not (type(options) == "table" and options.strict == false)
  local own = self:state_dict()
  local missing, unexpected, wrong = compare(own, dict)
  local lines = {}
  if strict and #missing > 0 then
    lines[#lines + 1] = "missing: " .. concat(missing, ", ")
  end
  if strict and #unexpected > 0 then
    lines[#lines + 1] = "unexpected: " .. concat(unexpected, ", ")
  end
  for _, line in ipairs(wrong) do lines[#lines + 1] = line end
  if #lines > 0 then
    args.fail(("load_state_dict: the state does not fit %s; nothing was loaded\n  %s"):format(
      getmetatable(self).__name, concat(lines, "\n  ")))
  end
  moth.no_grad(function()
    for name, tensor in pairs(own) do
      if dict[name] ~= nil then tensor:copy_(dict[name]) end
    end
  end)
  return { missing_keys = missing, unexpected_keys = unexpected }
end

local float_dtypes = { float64 = true, float32 = true, float16 = true, bfloat16 = true }
local short_names = { double = "float64", float = "float32", half = "float16" }

-- Replaces every parameter and buffer by f(tensor); tensors used twice stay one tensor.
local function convert(self, f)
  local done = {}
  for _, module in ipairs(self:modules()) do
    local changed = {}
    module:_each_member(function(name, value, kind)
      if kind ~= "child" then changed[#changed + 1] = { name, value, kind } end
    end)
    for _, item in ipairs(changed) do
      local name, value, kind = item[1], item[2], item[3]
      local new = done[value]
      if new == nil then
        new = f(value:detach())
        if kind == "parameter" then new = class.Parameter(new, value.requires_grad) end
        done[value] = new
      end
      rawset(module, name, new)
    end
  end
  return self
end

--- Moves parameters and buffers to a dtype or a device; a dtype changes floating tensors only.
--- The parameters are new tensors afterwards: make optimisers after the move. Returns the module.
---
---     model:to("cuda")   model:to("float64")   model:to { device = "cuda", dtype = "float16" }
---@param target string|table
function Module:to(target, second)
  if second ~= nil then self:to(second) end
  if type(target) == "table" and getmetatable(target) == nil then
    if target.dtype then self:to(target.dtype) end
    if target.device then self:to(target.device) end
    return self
  end
  local dtype = short_names[target] or target
  if not float_dtypes[tostring(dtype)] then
    return convert(self, function(t) return t:to(target) end)
  end
  return convert(self, function(t)
    return float_dtypes[tostring(t.dtype)] and t:to(dtype) or t
  end)
end

--- Converts floating parameters and buffers to float32; returns the module.
function Module:float() return self:to("float32") end

--- Converts floating parameters and buffers to float64; returns the module.
function Module:double() return self:to("float64") end

--- Converts floating parameters and buffers to float16; returns the module.
function Module:half() return self:to("float16") end

--- Converts floating parameters and buffers to bfloat16; returns the module.
function Module:bfloat16() return self:to("bfloat16") end

--- Moves parameters and buffers to the CPU, or to a CUDA device; returns the module.
function Module:cpu() return self:to("cpu") end
function Module:cuda(device) return self:to(device or "cuda") end

return Module
