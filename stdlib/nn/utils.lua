--- nn.utils: gradients and parameters of a whole model at once.
local moth = require "moth"
local args = require "moth.args"

local M = {}

local function list_of(parameters)
  return type(parameters) == "userdata" and { parameters } or parameters
end

local function gradients(parameters)
  local grads = {}
  for _, p in ipairs(list_of(parameters)) do
    local g = p.grad
    if g then grads[#grads + 1] = g:detach() end
  end
  return grads
end

local clip_norm = args.parse("clip_grad_norm_",
  "parameters, max_norm, norm_type=2.0, error_if_nonfinite=false")

--- Scales all gradients together so that their norm is at most max_norm. Returns the norm before.
---
---     nn.utils.clip_grad_norm_(model:parameters(), 1.0)
---@param parameters moth.Tensor|moth.Tensor[]
---@param max_norm number
---@param norm_type? number
---@return moth.Tensor total
function M.clip_grad_norm_(...)
  local parameters, max_norm, norm_type, strict = clip_norm:resolve(...)
  local grads = gradients(parameters)
  if #grads == 0 then return moth.tensor(0.0) end
  local total = moth._C._total_norm(grads, norm_type)
  local value = total:item()
  if strict and (value ~= value or value == math.huge) then
    args.fail("clip_grad_norm_: the norm of the gradients is " .. tostring(value))
  end
  local scale = max_norm / (value + 1e-6)
  if not (scale >= 1) then moth._C._scale_all(grads, scale) end
  return total
end

--- Limits every element of every gradient to -clip_value..clip_value.
---@param parameters moth.Tensor|moth.Tensor[]
---@param clip_value number
function M.clip_grad_value_(parameters, clip_value)
  for _, g in ipairs(gradients(parameters)) do g:clamp_(-clip_value, clip_value) end
end

--- All parameters behind each other in one vector.
---@param parameters moth.Tensor[]
---@return moth.Tensor
function M.parameters_to_vector(parameters)
  local flat = {}
  for i, p in ipairs(parameters) do flat[i] = p:reshape(-1) end
  return moth.cat(flat)
end

--- Writes a vector as `parameters_to_vector` gives it back into the parameters.
---@param vec moth.Tensor
---@param parameters moth.Tensor[]
function M.vector_to_parameters(vec, parameters)
  local total = 0
  for _, p in ipairs(parameters) do total = total + p:numel() end
  if vec:dim() ~= 1 or vec:numel() ~= total then
    args.fail(("vector_to_parameters: expected a vector of %d elements, got shape (%s)"):format(
      total, table.concat(vec.shape, ", ")))
  end
  moth.no_grad(function()
    local first = 1
    for _, p in ipairs(parameters) do
      p:copy_(vec:narrow(1, first, p:numel()):view_as(p))
      first = first + p:numel()
    end
  end)
end

return M
