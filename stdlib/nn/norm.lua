--- Normalisation layers.
local moth = require "moth"
local args = require "moth.args"
local class = require "moth.nn.class"
local F = require "moth.nn.functional"

local M = {}
local Parameter, Module = class.Parameter, class.Module

local function affine_parameters(self, shape, bias)
  self.weight = Parameter(moth.ones(shape))
  if bias then self.bias = Parameter(moth.zeros(shape)) end
end

local function running_statistics(self, num_features)
  self:register_buffer("running_mean", moth.zeros(num_features))
  self:register_buffer("running_var", moth.ones(num_features))
  self:register_buffer("num_batches_tracked", moth.zeros({}, { dtype = "int64" }))
end

local function init_statistics(self, num_features, eps, momentum, affine, track)
  self.num_features, self.eps, self.momentum = num_features, eps, momentum
  self.affine, self.track_running_stats = affine, track
  if affine then affine_parameters(self, num_features, true) end
  if track then running_statistics(self, num_features) end
end

--- Forgets the running statistics.
local function reset_running_stats(self)
  if not self.running_mean then return end
  self.running_mean:zero_()
  self.running_var:fill_(1)
  self.num_batches_tracked:zero_()
end

local function check_dims(self, x, least, most)
  local n = x:dim()
  if n < least or n > most then
    args.fail(("%s: expected an input of %s dims, got %d"):format(getmetatable(self).__name,
      least == most and tostring(least) or least .. " or " .. most, n))
  end
end

-- The weight of the new batch in the running statistics; counts the batch.
local function count_batch(self)
  self.num_batches_tracked:add_(1)
  return self.momentum or 1 / self.num_batches_tracked:item()
end

local statistics = "num_features, eps=1e-5, momentum=0.1, affine=true, track_running_stats=true, "
  .. "device=nil, dtype=nil"

local function define_batch_norm(n, least, most)
  local BatchNorm = class.class(("BatchNorm%dd"):format(n), Module, statistics)
  BatchNorm.init = init_statistics
  BatchNorm.reset_running_stats = reset_running_stats
  local batch_norm = moth.batch_norm

  function BatchNorm:forward(x)
    check_dims(self, x, least, most)
    local training, mean = self.training, self.running_mean
    if training and mean then
      local momentum = count_batch(self)
      return batch_norm(x, mean, self.running_var, self.weight, self.bias, true, momentum, self.eps)
    end
    return batch_norm(x, mean, self.running_var, self.weight, self.bias, training or not mean,
      self.momentum or 0.0, self.eps)
  end
  M[BatchNorm.__name] = BatchNorm
end

if moth.batch_norm then
  define_batch_norm(1, 2, 3)
  define_batch_norm(2, 4, 4)
  define_batch_norm(3, 5, 5)
end

local function define_instance_norm(n)
  local InstanceNorm = class.class(("InstanceNorm%dd"):format(n), Module, "num_features, eps=1e-5, "
    .. "momentum=0.1, affine=false, track_running_stats=false, device=nil, dtype=nil")
  InstanceNorm.init = init_statistics
  InstanceNorm.reset_running_stats = reset_running_stats

  function InstanceNorm:forward(x)
    check_dims(self, x, n + 1, n + 2)
    local single = x:dim() == n + 1
    if single then x = x:unsqueeze(1) end
    local training, mean = self.training, self.running_mean
    local y = F.instance_norm(x, mean, self.running_var, self.weight, self.bias,
      training or not mean, self.momentum or 0.0, self.eps)
    return single and y:squeeze(1) or y
  end
  M[InstanceNorm.__name] = InstanceNorm
end

if F.instance_norm then
  for n = 1, 3 do define_instance_norm(n) end
end

local function as_list(v) return type(v) == "table" and v or { v } end

--- Normalises over the last dims, whose sizes are given; weight and bias have these sizes.
---@class moth.nn.LayerNorm : moth.nn.Module
M.LayerNorm = class.class("LayerNorm", Module,
  "normalized_shape, eps=1e-5, elementwise_affine=true, bias=true, device=nil, dtype=nil")

function M.LayerNorm:init(normalized_shape, eps, affine, bias)
  self.normalized_shape, self.eps = as_list(normalized_shape), eps
  self.elementwise_affine = affine
  if affine then affine_parameters(self, self.normalized_shape, bias) end
end

function M.LayerNorm:forward(x)
  return moth.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
end

--- x / sqrt(mean(x^2) + eps) * weight over the last dims.
---@class moth.nn.RMSNorm : moth.nn.Module
M.RMSNorm = class.class("RMSNorm", Module,
  "normalized_shape, eps=nil, elementwise_affine=true, device=nil, dtype=nil")

function M.RMSNorm:init(normalized_shape, eps, affine)
  self.normalized_shape, self.eps = as_list(normalized_shape), eps
  self.elementwise_affine = affine
  if affine then affine_parameters(self, self.normalized_shape, false) end
end

function M.RMSNorm:forward(x)
  return moth.rms_norm(x, self.normalized_shape, self.weight, self.eps)
end

--- Normalises groups of channels of (N, C, ...).
---@class moth.nn.GroupNorm : moth.nn.Module
M.GroupNorm = class.class("GroupNorm", Module,
  "num_groups, num_channels, eps=1e-5, affine=true, device=nil, dtype=nil")

function M.GroupNorm:init(num_groups, num_channels, eps, affine)
  if num_channels % num_groups ~= 0 then
    args.fail(("GroupNorm: num_channels (%d) must be divisible by num_groups (%d)"):format(
      num_channels, num_groups))
  end
  self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
  if affine then affine_parameters(self, num_channels, true) end
end

function M.GroupNorm:forward(x)
  return moth.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)
end

if F.local_response_norm then
  --- x / (k + alpha/size * sum of squares over neighbouring channels)^beta.
  M.LocalResponseNorm = class.class("LocalResponseNorm", Module,
    "size, alpha=0.0001, beta=0.75, k=1.0")
  function M.LocalResponseNorm:init(size, alpha, beta, k)
    self.size, self.alpha, self.beta, self.k = size, alpha, beta, k
  end
  function M.LocalResponseNorm:forward(x)
    return F.local_response_norm(x, self.size, self.alpha, self.beta, self.k)
  end
end

return M
