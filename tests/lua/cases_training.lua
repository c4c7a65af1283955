-- Training by hand-computed numbers: optimisers, normalisation, accumulation, batches, memory.

local check = require "check"
local moth = require "moth"

local nn, optim, data = moth.nn, moth.optim, moth.data

local function parameter(v)
  return moth.tensor({ v }, { dtype = "float64", requires_grad = true })
end

-- Steps with the given gradients (false: none); the values after each.
local function steps(make, grads)
  local p = parameter(1.0)
  local opt = make { p }
  local seen = {}
  for i, g in ipairs(grads) do
    p.grad = g and moth.tensor({ g }, { dtype = "float64" }) or nil
    opt:step()
    seen[i] = p:item()
  end
  return seen, opt
end

check.test("a parameter without gradient is left alone, one with gradient zero decays", function()
  local function adam(p) return optim.Adam(p, { lr = 0.1, weight_decay = 0.1 }) end
  check.equal(steps(adam, { false, false }), { 1, 1 })
  check.close(steps(adam, { 0.0, 0.0 }), { 0.90000001, 0.800412248082 }, 1e-9)
  local function adamw(p) return optim.AdamW(p, { lr = 0.1, weight_decay = 0.1 }) end
  check.close(steps(adamw, { 0.0, false }), { 0.99, 0.99 }, 1e-12)
  local function sgd(p) return optim.SGD(p, { lr = 0.1, momentum = 0.9 }) end
  check.close(steps(sgd, { 1.0, 0.0, false }), { 0.9, 0.81, 0.81 }, 1e-12)
end)

check.test("Adam and AdamW, three steps by hand", function()
  local grads = { 0.5, 0.5, 0.0 }
  local function adamw(p) return optim.AdamW(p, { lr = 0.1, weight_decay = 0.1 }) end
  check.close(steps(adamw, grads), { 0.890000002, 0.78110000398, 0.695988716003 }, 1e-10)
  local function adam(p) return optim.Adam(p, { lr = 0.1 }) end
  check.close(steps(adam, grads), { 0.900000002, 0.800000004, 0.722699716063 }, 1e-10)
end)

check.test("BatchNorm1d: one value per channel, evaluation, running statistics", function()
  local bn = nn.BatchNorm1d(1)
  check.raises("", function() return bn(moth.tensor { { 5.0 } }) end)
  bn = nn.BatchNorm1d(1):eval()
  check.close(bn(moth.tensor { { 5.0 } }), { { 4.999975 } }, 1e-6)
  bn:train()
  check.close(bn(moth.tensor { { 1.0 }, { 3.0 } }), { { -0.999995 }, { 0.999995 } }, 1e-6)
  check.close(bn.running_mean, { 0.2 }, 1e-6)
  check.close(bn.running_var, { 1.1 }, 1e-6)
  check.equal(bn.num_batches_tracked, 1)
  local long = nn.BatchNorm1d(1)
  long(moth.tensor { { { 1.0, 2.0, 3.0, 4.0 } } })
  check.close(long.running_mean, { 0.25 }, 1e-6)
  check.close(long.running_var, { 1.0666666 }, 1e-6)
end)

check.test("gradients accumulate over batches of different sizes by their counts", function()
  local w = parameter(1.0)
  local batches = { { 1.0 }, { 3.0, 5.0, 7.0 } }
  for _, b in ipairs(batches) do
    ((w * moth.tensor(b, { dtype = "float64" })):sum() / 4):backward()
  end
  check.close(w.grad, { 4.0 }, 1e-12)
end)

check.test("batches of a data set: sizes, number, and none", function()
  local function sizes(n, options)
    local set = data.TensorDataset(moth.arange(n):to("float32"))
    local loader = data.DataLoader(set, options)
    local list = {}
    for x in loader:batches() do list[#list + 1] = x:size(1) end
    check.equal(#loader, #list)
    return list
  end
  check.equal(sizes(10, { batch_size = 4 }), { 4, 4, 2 })
  check.equal(sizes(10, { batch_size = 4, drop_last = true }), { 4, 4 })
  check.equal(sizes(10, { batch_size = 100, drop_last = true }), {})
  check.equal(sizes(0, { batch_size = 4 }), {})
end)

check.test("the same seed trains the same model, with one thread and with two", function()
  local function train(threads)
    moth.set_num_threads(threads)
    moth.manual_seed(4)
    local net = nn.Sequential(nn.Linear(56, 444), nn.ReLU(), nn.Linear(444, 1))
    local opt = optim.SGD(net:parameters(), { lr = 0.01 })
    local x, y = moth.randn(32, 56), moth.randn(32, 1)
    local loss
    for _ = 1, 20 do
      loss = nn.functional.mse_loss(net(x), y)
      opt:zero_grad()
      loss:backward()
      opt:step()
    end
    return loss:item(), moth.randn(100000):sum():item()
  end
  local before = moth.get_num_threads()
  local a, b = train(1)
  local c, d = train(2)
  moth.set_num_threads(before)
  check.equal(a, c)
  check.equal(b, d)
end)

check.test("temporaries in a loop stay within a few of themselves", function()
  collectgarbage()
  moth.reset_peak_memory_stats()
  local live = moth.memory_stats().live
  for _ = 1, 20000 do local _ = moth.zeros(10000) end
  local peak = moth.memory_stats().peak - live
  check.that(peak < 64 * 2 ^ 20, peak)
  moth.reset_peak_memory_stats()
  for _ = 1, 60 do local _ = moth.zeros(25 * 2 ^ 20 | 0) end
  peak = moth.memory_stats().peak - live
  check.that(peak <= 5 * 100 * 2 ^ 20, peak)
end)

check.test("errors leave no tensors behind", function()
  local t = moth.zeros(1000)
  local function fail() return moth.add(t * 2, "x") end
  for _ = 1, 1000 do pcall(fail) end
  collectgarbage()
  local before = moth.memory_stats().live
  for _ = 1, 20000 do pcall(fail) end
  collectgarbage()
  check.that(moth.memory_stats().live <= before + 100000)
end)

check.done()
