--- Activations as modules. Each row names the class, the operation and its arguments; the classes
--- are made from the rows. `inplace=true` overwrites the input where the operation can.
---
---     nn.LeakyReLU(0.2)   nn.GELU { approximate = "tanh" }   nn.ReLU { inplace = true }
local moth = require "moth"
local class = require "moth.nn.class"
local F = require "moth.nn.functional"

local M = {}

-- class, operation, arguments, whether it has an in-place form
local rows = {
  { "ReLU", "relu", "", true },
  { "ReLU6", "relu6", "", true },
  { "LeakyReLU", "leaky_relu", "negative_slope=0.01", true },
  { "ELU", "elu", "alpha=1.0", true },
  { "SELU", "selu", "", true },
  { "CELU", "celu", "alpha=1.0", true },
  { "SiLU", "silu", "", true },
  { "Mish", "mish", "", true },
  { "Sigmoid", "sigmoid", "" },
  { "Tanh", "tanh", "" },
  { "LogSigmoid", "logsigmoid", "" },
  { "Softplus", "softplus", "beta=1.0, threshold=20.0" },
  { "Softsign", "softsign", "" },
  { "Softshrink", "softshrink", "lambd=0.5" },
  { "Hardshrink", "hardshrink", "lambd=0.5" },
  { "Tanhshrink", "tanhshrink", "" },
  { "Hardtanh", "hardtanh", "min_val=-1.0, max_val=1.0", true },
  { "Hardsigmoid", "hardsigmoid", "", true },
  { "Hardswish", "hardswish", "", true },
  { "Threshold", "threshold", "threshold, value", true },
  { "GLU", "glu", "dim=-1" },
}

local function define(name, op, signature, inplace)
  local f = F[op]
  if not f then return end
  local f_ = inplace and moth[op .. "_"]
  local declared = signature
  if f_ then declared = signature .. (signature == "" and "" or ", ") .. "inplace=false" end
  local Activation = class.class(name, nil, declared)
  local _, count = signature:gsub("[%w_]+=?[^,]*", "")
  local key1, key2 = signature:match("^([%w_]+)"), signature:match(",%s*([%w_]+)")

  function Activation:init(...)
    local values = { ... }
    if count >= 1 then self[key1] = values[1] end
    if count >= 2 then self[key2] = values[2] end
    self._f = f_ and values[count + 1] and f_ or f
  end

  if count == 0 then
    function Activation:forward(x) return self._f(x) end
  elseif count == 1 then
    function Activation:forward(x) return self._f(x, self[key1]) end
  else
    function Activation:forward(x) return self._f(x, self[key1], self[key2]) end
  end
  M[name] = Activation
end

for _, row in ipairs(rows) do define(table.unpack(row)) end

-- Softmax and its kin. Without a dim: the first for 0, 1 and 3 dims, else the second (PyTorch's
-- rule).
local function define_softmax(name, op)
  local f = F[op]
  if not f then return end
  local Softmax = class.class(name, nil, "dim=nil")
  function Softmax:init(dim) self.dim = dim end
  function Softmax:forward(x)
    local dim = self.dim
    if not dim then
      local n = x:dim()
      dim = (n == 0 or n == 1 or n == 3) and 1 or 2
    end
    return f(x, dim)
  end
  M[name] = Softmax
end
define_softmax("Softmax", "softmax")
define_softmax("LogSoftmax", "log_softmax")
define_softmax("Softmin", "softmin")

--- Softmax over the channels of (N, C, H, W) or (C, H, W).
M.Softmax2d = class.class("Softmax2d")
function M.Softmax2d:init() end
function M.Softmax2d:forward(x) return moth.softmax(x, -3) end

--- x * P(X <= x) for a standard normal X; approximate="tanh" is the usual quick formula.
M.GELU = class.class("GELU", nil, "approximate='none'")
function M.GELU:init(approximate)
  self.approximate = approximate
  self._options = { approximate = approximate }
end
function M.GELU:forward(x) return moth.gelu(x, self._options) end

--- max(0, x) + weight * min(0, x) with a learned weight, one for all or one a channel.
M.PReLU = class.class("PReLU", nil, "num_parameters=1, init=0.25, device=nil, dtype=nil")
function M.PReLU:init(num_parameters, value)
  self.num_parameters = num_parameters
  self.weight = class.Parameter(moth.empty(num_parameters):fill_(value))
end
function M.PReLU:forward(x) return moth.prelu(x, self.weight) end

if F.rrelu then
  --- Leaky relu with a slope drawn between lower and upper; their middle in evaluation.
  M.RReLU = class.class("RReLU", nil, "lower=0.125, upper=0.3333333333333333")
  function M.RReLU:init(lower, upper) self.lower, self.upper = lower, upper end
  function M.RReLU:forward(x) return moth.rrelu(x, self.lower, self.upper, self.training) end
end

return M
