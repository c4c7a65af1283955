--- nn.functional: PyTorch's names for the functions of networks. Nearly all are operations of the
--- core under the same name, looked up once and then kept; those below are composed of others.
---
---     local F = nn.functional
---     local loss = F.cross_entropy(logits, targets, { label_smoothing = 0.1 })
local moth = require "moth"
local args = require "moth.args"

local composed = {}

-- A composed function takes its arguments by position or by name.
local function declare(name, signature, body)
  local sig = args.parse(name, signature)
  composed[name] = function(...) return body(sig:resolve(...)) end
end

local function reduce(loss, reduction)
  if reduction == "mean" then return loss:mean() end
  if reduction == "sum" then return loss:sum() end
  if reduction == "none" then return loss end
  args.fail("reduction must be 'none', 'mean' or 'sum', got '" .. tostring(reduction) .. "'")
end

-- Quadratic near zero, linear beyond delta.
declare("huber_loss", "input, target, reduction='mean', delta=1.0",
  function(input, target, reduction, delta)
    local distance = (input - target):abs()
    local near = distance:clamp_max(delta)
    return reduce(near * (distance - near * 0.5), reduction)
  end)

-- Whole channels: dims from `keep + 1` on share one draw.
local function channel_dropout(name, ndim)
  declare(name, "input, p=0.5, training=true, inplace=false",
    function(input, p, training, inplace)
      if not training or p == 0 then return input end
      local shape = input.shape
      local first = #shape == ndim and 3 or 2
      for i = first, #shape do shape[i] = 1 end
      local keep = input:new_zeros(shape):bernoulli_(1 - p)
      if p < 1 then keep:div_(1 - p) end
      if inplace then return input:mul_(keep) end
      return input * keep
    end)
end
channel_dropout("dropout1d", 3)
channel_dropout("dropout2d", 4)
channel_dropout("dropout3d", 5)

declare("softmin", "input, dim, dtype=nil", function(input, dim, dtype)
  if dtype then input = input:to(dtype) end
  return moth.softmax(-input, dim)
end)

declare("bilinear", "input1, input2, weight, bias=nil", function(x1, x2, weight, bias)
  local y = moth.einsum("...i,kij,...j->...k", { x1, weight, x2 })
  return bias and y + bias or y
end)

declare("pairwise_distance", "x1, x2, p=2.0, eps=1e-6, keepdim=false",
  function(x1, x2, p, eps, keepdim)
    return (x1 - x2 + eps):norm(p, -1, keepdim)
  end)

local names = { unfold = "im2col" }

return setmetatable({}, {
  __index = function(self, name)
    local f = moth[names[name] or name]
    if f == nil then f = composed[name] end
    rawset(self, name, f)
    return f
  end,
})
