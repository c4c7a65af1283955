--- Linear layers and the identity.
local moth = require "moth"
local class = require "moth.nn.class"
local init = require "moth.nn.initializers"
local F = require "moth.nn.functional"

local M = {}
local Parameter, Module = class.Parameter, class.Module
local linear = moth.linear

--- y = x; takes any arguments and ignores them.
---@class moth.nn.Identity : moth.nn.Module
M.Identity = class.class("Identity")
function M.Identity:init() end
function M.Identity:forward(x) return x end

--- y = x W' + b over the last dim. weight: (out_features, in_features), bias: (out_features).
---
---     local fc = nn.Linear(784, 128)
---     fc(moth.randn(32, 784)).shape       --> {32, 128}
---@class moth.nn.Linear : moth.nn.Module
---@field weight moth.Tensor
---@field bias moth.Tensor|nil
M.Linear = class.class("Linear", Module,
  "in_features, out_features, bias=true, device=nil, dtype=nil")

function M.Linear:init(in_features, out_features, bias)
  self.in_features, self.out_features = in_features, out_features
  self.weight = Parameter(moth.empty(out_features, in_features))
  if bias then self.bias = Parameter(moth.empty(out_features)) end
  self:reset_parameters()
end

--- Draws weight and bias anew: uniform within 1/sqrt(in_features).
function M.Linear:reset_parameters()
  init.kaiming_uniform_(self.weight, math.sqrt(5))
  if self.bias then
    local bound = self.in_features > 0 and 1 / math.sqrt(self.in_features) or 0.0
    init.uniform_(self.bias, -bound, bound)
  end
end

function M.Linear:forward(x) return linear(x, self.weight, self.bias) end

--- y_k = x1' W_k x2 + b_k. weight: (out_features, in1_features, in2_features).
---@class moth.nn.Bilinear : moth.nn.Module
M.Bilinear = class.class("Bilinear", Module,
  "in1_features, in2_features, out_features, bias=true, device=nil, dtype=nil")

function M.Bilinear:init(in1, in2, out, bias)
  self.in1_features, self.in2_features, self.out_features = in1, in2, out
  self.weight = Parameter(moth.empty(out, in1, in2))
  if bias then self.bias = Parameter(moth.empty(out)) end
  self:reset_parameters()
end

function M.Bilinear:reset_parameters()
  local bound = 1 / math.sqrt(self.in1_features)
  init.uniform_(self.weight, -bound, bound)
  if self.bias then init.uniform_(self.bias, -bound, bound) end
end

function M.Bilinear:forward(x1, x2) return F.bilinear(x1, x2, self.weight, self.bias) end

return M
