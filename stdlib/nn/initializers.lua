--- nn.init: how parameters start. Each function fills a tensor in place, records nothing, and
--- returns the tensor. Fans are counted as in PyTorch: dim 2 is input, dim 1 output, the rest the
--- receptive field.
---
---     nn.init.kaiming_normal_(layer.weight, { nonlinearity = "relu" })
---     nn.init.zeros_(layer.bias)
local moth = require "moth"
local args = require "moth.args"

local M = {}

local sqrt = math.sqrt

-- Declares a function: its arguments by text, its body under no_grad.
local function declare(name, signature, body)
  local sig = args.parse("nn.init." .. name, signature)
  M[name] = function(...)
    local values = sig:collect(...)
    local tensor = values[1]
    if type(tensor) ~= "userdata" then
      sig:fail("argument 'tensor' must be a tensor, got a " .. type(tensor))
    end
    moth.no_grad(function() body(sig, table.unpack(values, 1, #sig.names)) end)
    return tensor
  end
end

local function sizes_product(shape, from)
  local n = 1
  for i = from, #shape do n = n * shape[i] end
  return n
end

--- Number of inputs and outputs of one unit of a weight tensor.
---@param tensor moth.Tensor of at least two dims
---@return integer fan_in, integer fan_out
function M.fans(tensor)
  local shape = tensor.shape
  if #shape < 2 then
    args.fail("nn.init: fans need a tensor of at least 2 dims, got " .. #shape)
  end
  local field = sizes_product(shape, 3)
  return shape[2] * field, shape[1] * field
end
M._calculate_fan_in_and_fan_out = M.fans

local gains = {
  linear = 1.0, identity = 1.0, sigmoid = 1.0, tanh = 5.0 / 3.0, relu = sqrt(2.0), selu = 0.75,
  conv1d = 1.0, conv2d = 1.0, conv3d = 1.0,
  conv_transpose1d = 1.0, conv_transpose2d = 1.0, conv_transpose3d = 1.0,
}

--- The factor that keeps the variance through a nonlinearity.
---@param nonlinearity string "linear", "relu", "leaky_relu", "tanh", "sigmoid", "selu" ...
---@param param? number slope of leaky_relu, default 0.01
---@return number
function M.calculate_gain(nonlinearity, param)
  if nonlinearity == "leaky_relu" then
    local slope = param == nil and 0.01 or param
    if type(slope) ~= "number" then
      args.fail("calculate_gain: the slope must be a number, got a " .. type(slope))
    end
    return sqrt(2.0 / (1.0 + slope * slope))
  end
  local gain = gains[nonlinearity]
  if not gain then args.fail("calculate_gain: unknown nonlinearity " .. tostring(nonlinearity)) end
  return gain
end

declare("uniform_", "tensor, a=0.0, b=1.0", function(_, t, a, b) t:uniform_(a, b) end)
declare("normal_", "tensor, mean=0.0, std=1.0", function(_, t, mean, std) t:normal_(mean, std) end)
declare("constant_", "tensor, val", function(_, t, val) t:fill_(val) end)
declare("ones_", "tensor", function(_, t) t:fill_(1) end)
declare("zeros_", "tensor", function(_, t) t:zero_() end)

declare("eye_", "tensor", function(sig, t)
  if t:dim() ~= 2 then sig:fail("needs a tensor of 2 dims, got " .. t:dim()) end
  t:copy_(moth.eye(t:size(1), t:size(2)))
end)

declare("dirac_", "tensor, groups=1", function(sig, t, groups)
  local shape = t.shape
  if #shape < 3 or #shape > 5 then sig:fail("needs a tensor of 3 to 5 dims, got " .. #shape) end
  if shape[1] % groups ~= 0 then sig:fail("dim 1 must be divisible by groups") end
  local per_group = shape[1] // groups
  t:zero_()
  for g = 0, groups - 1 do
    for d = 1, math.min(per_group, shape[2]) do
      local cell = t:select(1, g * per_group + d):select(1, d)
      for i = 3, #shape do cell = cell:select(1, shape[i] // 2 + 1) end
      cell:fill_(1)
    end
  end
end)

declare("xavier_uniform_", "tensor, gain=1.0", function(_, t, gain)
  local fan_in, fan_out = M.fans(t)
  local bound = gain * sqrt(6.0 / (fan_in + fan_out))
  t:uniform_(-bound, bound)
end)

declare("xavier_normal_", "tensor, gain=1.0", function(_, t, gain)
  local fan_in, fan_out = M.fans(t)
  t:normal_(0.0, gain * sqrt(2.0 / (fan_in + fan_out)))
end)

local function kaiming_std(sig, t, a, mode, nonlinearity)
  local fan_in, fan_out = M.fans(t)
  if mode ~= "fan_in" and mode ~= "fan_out" then
    sig:fail("mode must be 'fan_in' or 'fan_out', got " .. tostring(mode))
  end
  local fan = mode == "fan_in" and fan_in or fan_out
  return M.calculate_gain(nonlinearity, a) / sqrt(fan)
end

local kaiming = "tensor, a=0.0, mode='fan_in', nonlinearity='leaky_relu'"

declare("kaiming_uniform_", kaiming, function(sig, t, a, mode, nonlinearity)
  if t:numel() == 0 then return end
  local bound = sqrt(3.0) * kaiming_std(sig, t, a, mode, nonlinearity)
  t:uniform_(-bound, bound)
end)

declare("kaiming_normal_", kaiming, function(sig, t, a, mode, nonlinearity)
  if t:numel() == 0 then return end
  t:normal_(0.0, kaiming_std(sig, t, a, mode, nonlinearity))
end)

declare("trunc_normal_", "tensor, mean=0.0, std=1.0, a=-2.0, b=2.0",
  function(_, t, mean, std, a, b) t:trunc_normal_(mean, std, a, b) end)

-- Gram-Schmidt, each row twice: once is not orthogonal to rounding, twice is.
local function orthonormal_rows(rows)
  local n = rows:size(1)
  for i = 1, n do
    local row = rows:select(1, i)
    for _ = 1, i > 1 and 2 or 0 do
      local before = rows:narrow(1, 1, i - 1)
      row:sub_(before:t():mv(before:mv(row)))
    end
    row:div_(row:norm())
  end
  return rows
end

declare("orthogonal_", "tensor, gain=1.0", function(sig, t, gain)
  if t:dim() < 2 then sig:fail("needs a tensor of at least 2 dims, got " .. t:dim()) end
  if t:numel() == 0 then return end
  local rows = t:size(1)
  local cols = t:numel() // rows
  local wide = rows <= cols
  local q = moth.randn(wide and rows or cols, wide and cols or rows, { dtype = "float64" })
  q = orthonormal_rows(q)
  if not wide then q = q:t() end
  t:copy_(q:mul(gain):reshape(t.shape))
end)

declare("sparse_", "tensor, sparsity, std=0.01", function(sig, t, sparsity, std)
  if t:dim() ~= 2 then sig:fail("needs a tensor of 2 dims, got " .. t:dim()) end
  local rows, cols = t:size(1), t:size(2)
  local zeros = math.ceil(sparsity * rows)
  t:normal_(0.0, std)
  if zeros == 0 then return end
  for c = 1, cols do
    t:select(2, c):index_copy_(1, moth.randperm(rows):narrow(1, 1, zeros), t.new_zeros(t, zeros))
  end
end)

return M
