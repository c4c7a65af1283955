--- Pooling layers. `kernel_size`, `stride` and so on are one number or one a dim; the stride
--- defaults to the kernel size.
local class = require "moth.nn.class"
local F = require "moth.nn.functional"

local M = {}

local function define_max(name, op)
  local pool = F[op]
  if not pool then return end
  local Pool = class.class(name, nil, "kernel_size, stride=nil, padding=0, dilation=1, "
    .. "return_indices=false, ceil_mode=false")
  function Pool:init(kernel_size, stride, padding, dilation, return_indices, ceil_mode)
    self.kernel_size, self.stride = kernel_size, stride or kernel_size
    self.padding, self.dilation = padding, dilation
    self.return_indices, self.ceil_mode = return_indices, ceil_mode
  end
  function Pool:forward(x)
    if self.return_indices then
      return pool(x, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
        true)
    end
    return pool(x, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)
  end
  M[name] = Pool
end

local function define_avg(name, op, divisor)
  local pool = F[op]
  if not pool then return end
  local Pool = class.class(name, nil, "kernel_size, stride=nil, padding=0, ceil_mode=false, "
    .. "count_include_pad=true" .. (divisor and ", divisor_override=nil" or ""))
  function Pool:init(kernel_size, stride, padding, ceil_mode, count_include_pad, override)
    self.kernel_size, self.stride = kernel_size, stride or kernel_size
    self.padding, self.ceil_mode = padding, ceil_mode
    self.count_include_pad, self.divisor_override = count_include_pad, override
  end
  function Pool:forward(x)
    local override = self.divisor_override
    if override then
      return pool(x, self.kernel_size, self.stride, self.padding, self.ceil_mode,
        self.count_include_pad, override)
    end
    return pool(x, self.kernel_size, self.stride, self.padding, self.ceil_mode,
      self.count_include_pad)
  end
  M[name] = Pool
end

local function define_adaptive(name, op, indices)
  local pool = F[op]
  if not pool then return end
  local Pool = class.class(name, nil, "output_size" .. (indices and ", return_indices=false" or ""))
  function Pool:init(output_size, return_indices)
    self.output_size, self.return_indices = output_size, return_indices
  end
  function Pool:forward(x)
    if self.return_indices then return pool(x, self.output_size, true) end
    return pool(x, self.output_size)
  end
  M[name] = Pool
end

for n = 1, 3 do
  define_max(("MaxPool%dd"):format(n), ("max_pool%dd"):format(n))
  define_avg(("AvgPool%dd"):format(n), ("avg_pool%dd"):format(n), n > 1)
  define_adaptive(("AdaptiveAvgPool%dd"):format(n), ("adaptive_avg_pool%dd"):format(n))
  define_adaptive(("AdaptiveMaxPool%dd"):format(n), ("adaptive_max_pool%dd"):format(n), true)
end

return M
