--- Convolutions and transposed convolutions in one, two and three dims.
---
--- Inputs are (N, C, ...) or, without a batch, (C, ...). Weights: (out, in/groups, ...) for
--- convolutions, (in, out/groups, ...) for transposed ones.
local moth = require "moth"
local args = require "moth.args"
local class = require "moth.nn.class"
local init = require "moth.nn.initializers"

local M = {}
local Parameter, Module = class.Parameter, class.Module

-- One number stands for all dims.
local function tuple(v, n)
  if type(v) ~= "table" then
    local list = {}
    for i = 1, n do list[i] = v end
    return list
  end
  return v
end

local function check_groups(self, in_channels, out_channels, groups)
  local name = getmetatable(self).__name
  if in_channels % groups ~= 0 or out_channels % groups ~= 0 then
    args.fail(("%s: in_channels (%d) and out_channels (%d) must be divisible by groups (%d)")
      :format(name, in_channels, out_channels, groups))
  end
end

local function setup(self, n, in_channels, out_channels, kernel_size, weight_dims, groups, bias)
  check_groups(self, in_channels, out_channels, groups)
  self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
  self.kernel_size = tuple(kernel_size, n)
  for i = 1, n do weight_dims[2 + i] = self.kernel_size[i] end
  self.weight = Parameter(moth.empty(weight_dims))
  if bias then self.bias = Parameter(moth.empty(out_channels)) end
  self:reset_parameters()
end

-- Uniform within 1/sqrt(fan_in), weight and bias alike.
local function reset_parameters(self)
  init.kaiming_uniform_(self.weight, math.sqrt(5))
  if self.bias then
    local fan_in = init.fans(self.weight)
    local bound = fan_in > 0 and 1 / math.sqrt(fan_in) or 0.0
    init.uniform_(self.bias, -bound, bound)
  end
end

-- Padding on both sides of every dim for `pad`, last dim first.
local function pad_list(self, n, padding)
  local list = {}
  for i = n, 1, -1 do
    local before, after = padding, padding
    if padding == "same" then
      local total = self.dilation[i] * (self.kernel_size[i] - 1)
      before = total // 2
      after = total - before
    elseif padding == "valid" then
      before, after = 0, 0
    elseif type(padding) == "table" then
      before, after = padding[i], padding[i]
    end
    list[#list + 1] = before
    list[#list + 1] = after
  end
  return list
end

local padding_modes = { zeros = true, reflect = true, replicate = true, circular = true }

local function define_conv(n)
  local name = ("Conv%dd"):format(n)
  local conv, pad = moth[("conv%dd"):format(n)], moth.pad
  if not conv then return end
  local Conv = class.class(name, Module, "in_channels, out_channels, kernel_size, stride=1, "
    .. "padding=0, dilation=1, groups=1, bias=true, padding_mode='zeros', device=nil, dtype=nil")

  function Conv:init(in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
                     bias, padding_mode)
    if not padding_modes[padding_mode] then
      args.fail(("%s: unknown padding_mode '%s'"):format(name, tostring(padding_mode)))
    end
    self.stride, self.dilation = tuple(stride, n), tuple(dilation, n)
    self.padding_mode = padding_mode
    setup(self, n, in_channels, out_channels, kernel_size,
      { out_channels, in_channels // groups }, groups, bias)
    self.padding = type(padding) == "string" and padding or tuple(padding, n)
    self._pad = padding_mode ~= "zeros" and pad_list(self, n, padding) or false
  end

  Conv.reset_parameters = reset_parameters

  function Conv:forward(x)
    local around = self._pad
    if around then
      x = pad(x, around, self.padding_mode)
      return conv(x, self.weight, self.bias, self.stride, 0, self.dilation, self.groups)
    end
    return conv(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
  end

  M[name] = Conv
end

-- output_padding that gives the asked sizes.
local function output_padding_for(self, n, x, output_size)
  local shape, list = x.shape, {}
  local first, skip = #shape - n, #output_size - n
  for i = 1, n do
    local smallest = (shape[first + i] - 1) * self.stride[i] - 2 * self.padding[i]
      + self.dilation[i] * (self.kernel_size[i] - 1) + 1
    local extra = output_size[skip + i] - smallest
    if extra < 0 or extra >= math.max(self.stride[i], self.dilation[i]) then
      args.fail(("%s: output_size[%d] must be from %d to %d, got %d"):format(
        getmetatable(self).__name, skip + i, smallest,
        smallest + math.max(self.stride[i], self.dilation[i]) - 1, output_size[skip + i]))
    end
    list[i] = extra
  end
  return list
end

local function define_transpose(n)
  local name = ("ConvTranspose%dd"):format(n)
  local conv = moth[("conv_transpose%dd"):format(n)]
  if not conv then return end
  local Conv = class.class(name, Module, "in_channels, out_channels, kernel_size, stride=1, "
    .. "padding=0, output_padding=0, groups=1, bias=true, dilation=1, device=nil, dtype=nil")

  function Conv:init(in_channels, out_channels, kernel_size, stride, padding, output_padding,
                     groups, bias, dilation)
    self.stride, self.dilation = tuple(stride, n), tuple(dilation, n)
    self.padding, self.output_padding = tuple(padding, n), tuple(output_padding, n)
    setup(self, n, in_channels, out_channels, kernel_size,
      { in_channels, out_channels // groups }, groups, bias)
  end

  Conv.reset_parameters = reset_parameters

  function Conv:forward(x, output_size)
    local extra = self.output_padding
    if output_size then extra = output_padding_for(self, n, x, output_size) end
    return conv(x, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
      self.dilation)
  end

  M[name] = Conv
end

for n = 1, 3 do
  define_conv(n)
  define_transpose(n)
end

return M
