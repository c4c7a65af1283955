--- The workloads of `make bench`. peer.py has the same under the same names, in PyTorch.

local moth = require "moth"
local nn, optim = require "moth.nn", require "moth.optim"
local bench = require "bench"

local N = 1000
local workload = bench.workload

-- ---- operations on tiny tensors: what an interpreter-bound user feels ----

for _, n in ipairs { 1, 16 } do
  workload("op/add_" .. n, function()
    local x, y = moth.randn(n), moth.randn(n)
    return function() for _ = 1, N do local _ = x + y end end, N
  end)
  workload("op/add_" .. n .. "_recording", function()
    local x, y = moth.randn(n), moth.randn(n)
    x.requires_grad = true
    return function() for _ = 1, N do local _ = x + y end end, N
  end)
  workload("op/chain20_" .. n .. "_forward_backward", function()
    local x, w = moth.randn(n), moth.ones(n)
    w.requires_grad = true
    return function()
      for _ = 1, 50 do
        local h = x
        for _ = 1, 20 do h = h * w end
        h:sum():backward()
        w.grad = nil
      end
    end, 1000
  end)
end

workload("op/add_inplace_16", function()
  local x, y = moth.zeros(16), moth.randn(16)
  return function() for _ = 1, N do x:add_(y) end end, N
end)

-- ---- small networks ----

local function mlp()
  return nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
end

for _, batch in ipairs { 1, 32 } do
  for _, kind in ipairs { "SGD", "Adam" } do
    workload(("mlp_4_64_64_2/%s_b%d"):format(kind:lower(), batch), function()
      local net, x, y = mlp(), moth.randn(batch, 4), moth.randn(batch, 2)
      local opt = optim[kind](net:parameters(), { lr = 1e-3 })
      local mse = nn.functional.mse_loss
      return function()
        for _ = 1, 20 do
          opt:zero_grad()
          local loss = mse(net(x), y)
          loss:backward()
          opt:step()
        end
      end, 20
    end)
  end
end

-- ---- epochs on synthetic digits: 10,000 images, batch 64 ----

local function epoch(net, shape)
  local count, batch = 10000, 64
  local x = moth.randn(count, table.unpack(shape))
  local y = moth.randint(1, 11, { count })
  local opt = optim.SGD(net:parameters(), { lr = 0.01, momentum = 0.9 })
  local cross_entropy = nn.functional.cross_entropy
  return function()
    for first = 1, count - batch + 1, batch do
      local range = { { first, first + batch - 1 } }
      opt:zero_grad()
      local loss = cross_entropy(net(x[range]), y[range])
      loss:backward()
      opt:step()
    end
  end
end

workload("epoch/mnist_mlp", function()
  return epoch(nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)), { 784 })
end)

workload("epoch/lenet", function()
  return epoch(nn.Sequential(
    nn.Conv2d(1, 6, 5, { padding = 2 }), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
    nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)
  ), { 1, 28, 28 })
end)

-- ---- bandwidth: 16 M floats ----

local BIG = 1 << 24
local function one_input(name)
  workload("big/" .. name, function()
    local x = moth.randn(BIG)
    return function() local _ = x[name](x) end
  end)
end

for _, name in ipairs { "add", "mul" } do
  workload("big/" .. name, function()
    local x, y = moth.randn(BIG), moth.randn(BIG)
    return function() local _ = x[name](x, y) end
  end)
end
for _, name in ipairs { "relu", "exp", "tanh", "sigmoid", "gelu", "sum", "mean", "max", "var",
                        "argmax" } do
  one_input(name)
end
workload("big/softmax_4096x1024", function()
  local x = moth.randn(4096, 1024)
  return function() local _ = x:softmax(2) end
end)
workload("big/sum_dim1_4096x1024", function()
  local x = moth.randn(4096, 1024)
  return function() local _ = x:sum(1) end
end)
workload("big/sum_dim2_4096x1024", function()
  local x = moth.randn(4096, 1024)
  return function() local _ = x:sum(2) end
end)

-- ---- products ----

for _, n in ipairs { 64, 256, 1024 } do
  workload(("matmul/%d"):format(n), function()
    local a, b = moth.randn(n, n), moth.randn(n, n)
    return function() local _ = a:matmul(b) end
  end)
end
workload("matmul/64x784x128", function()
  local a, b = moth.randn(64, 784), moth.randn(784, 128)
  return function() local _ = a:matmul(b) end
end)
