--- An operation with its own backward, written in Lua.
---
--- `swish(x) = x * sigmoid(x)` saves its input alone and computes the gradient in one formula.
--- Since that formula uses operations, it can be differentiated again. It is checked against
--- differences, and then used in a network that learns the exclusive or.
---
---     moth samples/custom_function.lua [--quick]
local moth = require "moth"
local autograd = require "moth.autograd"
local nn, optim = require "moth.nn", require "moth.optim"

local quick = arg[1] == "--quick"
moth.manual_seed(1)

local Swish = autograd.Function("swish")

function Swish.forward(ctx, x)
  ctx:save_for_backward(x)
  return x * x:sigmoid()
end

function Swish.backward(ctx, g)
  local x = ctx.saved_tensors[1]
  local s = x:sigmoid()
  return g * (s + x * s * (1 - s))
end

local swish = Swish.apply

local x = moth.randn(4, 3, { dtype = "float64" }):requires_grad_()
assert(autograd.gradcheck(swish, { x }))
assert(autograd.gradgradcheck(swish, { x }))
print("first and second derivatives agree with differences")

-- A module around it fits everywhere.
local SwishLayer = nn.class("Swish")
function SwishLayer:forward(input) return swish(input) end

local model = nn.Sequential(nn.Linear(2, 8), SwishLayer(), nn.Linear(8, 1))
local optimizer = optim.SGD(model:parameters(), { lr = 0.5, momentum = 0.9 })
local inputs = moth.tensor { { 0, 0 }, { 0, 1 }, { 1, 0 }, { 1, 1 } }:to("float32")
local targets = moth.tensor { { 0.0 }, { 1.0 }, { 1.0 }, { 0.0 } }

local loss
for step = 1, quick and 300 or 1000 do
  loss = nn.functional.binary_cross_entropy_with_logits(model(inputs), targets)
  optimizer:zero_grad()
  loss:backward()
  optimizer:step()
  if step % 100 == 0 then print(("step %4d  loss %.4f"):format(step, loss:item())) end
end

print(model(inputs):sigmoid():detach())
assert(loss:item() < 0.05, "exclusive or was not learned")
