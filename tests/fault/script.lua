-- What runs while allocations fail: tensors, views, autograd, indexing, errors, a step of training.
-- It must not catch the error that it is there to meet.
local moth = require "moth"

local x = moth.tensor { { 1.0, 2.0, 3.0 }, { 4.0, 5.0, 6.0 } }
local w = moth.ones(3, 2):requires_grad_(true)
local y = (x:matmul(w) * 0.5):tanh():clone()
y[{ 1, {} }] = 0
local loss = (y:sum(1) - x[{ {}, 1 }]):pow(2):mean()
loss:backward()
assert(w.grad:size(1) == 3)
moth.no_grad(function() w:sub_(w.grad * 0.1) end)

local g = moth.autograd.grad((w * w * w):sum(), w, { create_graph = true })
g:sum():backward()

assert(#tostring(x) > 0)
assert(moth.cat({ x, x }, 1):size(1) == 4)
local ok, e = pcall(moth.matmul, x, x)
assert(not ok)
if e:find("memory") then error(e, 0) end

local model = moth.nn.Linear(3, 2)
local opt = moth.optim.SGD(model:parameters(), { lr = 0.1, momentum = 0.9 })
opt:zero_grad()
moth.nn.functional.mse_loss(model(x), moth.zeros(2, 2)):backward()
opt:step()
