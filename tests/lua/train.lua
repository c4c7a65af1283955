-- Progress and accuracy; checks of gradients and derivatives as functions.

local check = require "check"
local moth = require "moth"
local nn = require "moth.nn"
local data = require "moth.data"
local train = require "moth.train"
local autograd = require "moth.autograd"

-- Something to write to that remembers.
local function sink()
  local self = { text = "" }
  function self:write(...) self.text = self.text .. table.concat { ... } end
  function self:flush() end
  return self
end

check.test("progress iterates over loaders, numbers, lists and functions", function()
  local out = sink()
  local function seen(over, options)
    options = options or {}
    options.file = out
    local list = {}
    for bar, v in train.progress(over, options) do
      list[#list + 1] = moth.is_tensor(v) and v:tolist() or v
      check.equal(bar.i, #list)
    end
    return list
  end
  check.equal(seen(3), { 1, 2, 3 })
  check.equal(seen { "a", "b" }, { "a", "b" })
  local ds = data.TensorDataset(moth.arange(1, 4))
  check.equal(seen(data.DataLoader(ds, { batch_size = 2 })), { { 1, 2 }, { 3 } })
  local left = 2
  check.equal(seen(function()
    left = left - 1
    return left >= 0 and left or nil
  end, { total = 2 }), { 1, 0 })
  check.equal(seen(0), {})
  check.raises("expected a loader, a number", function() train.progress("x") end)
end)

check.test("in a log: one line at the end, with the metrics", function()
  local out = sink()
  for bar, i in train.progress(4, { desc = "epoch 1", file = out }) do
    bar:mean { loss = i * 1.0 }
    bar:set { last = i, note = "ok" }
  end
  check.that(out.text:find "^epoch 1  4/4  ", out.text)
  check.that(out.text:find("last 4  loss 2.5  note ok\n", 1, true), out.text)
  check.equal(select(2, out.text:gsub("\n", "")), 1)
end)

check.test("leaving the loop early ends the line; tensors are metrics", function()
  local out, kept = sink(), nil
  for bar, i in train.progress(10, { file = out, terminal = true }) do
    bar:mean { loss = moth.tensor(0.5) }
    kept = bar
    if i == 3 then break end
  end
  check.that(out.text:find("3/10", 1, true) and out.text:find "\n$", out.text)
  check.equal(kept:value("loss"), 0.5)
  check.equal(kept:value("other"), nil)
end)

check.test("accuracy is measured in evaluation mode, and the modes come back", function()
  local model = nn.Sequential(nn.Dropout(0.9), nn.Identity())
  model[2]:eval()
  local x = moth.tensor { { 1.0, 0.0 }, { 0.0, 1.0 }, { 1.0, 0.0 }, { 1.0, 0.0 } }
  local loader = data.DataLoader(data.TensorDataset(x, moth.tensor { 1, 2, 2, 1 }),
    { batch_size = 3 })
  check.equal(train.accuracy(model, loader), 0.75)
  check.that(model.training and model[1].training and not model[2].training, "modes")
end)

local function double(...)
  return moth.tensor({ ... }, { dtype = "float64" }):requires_grad_()
end

check.test("gradcheck passes right gradients and finds wrong ones", function()
  local x, y = double(0.3, -1.2, 0.7), double(1.0, 2.0, -0.5)
  check.that(autograd.gradcheck(function(a, b) return a:tanh() * b, a:sum() end, { x, y }), "right")
  check.that(autograd.gradgradcheck(function(a, b) return a:tanh() * b end, { x, y }), "second")
  local Wrong = autograd.Function("wrong")
  function Wrong.forward(ctx, a)
    ctx:save_for_backward(a)
    return a * a
  end
  function Wrong.backward(ctx, g) return ctx.saved_tensors[1] * g end
  local ok, why = autograd.gradcheck(Wrong.apply, { x }, { raise_exception = false })
  check.equal(ok, false)
  check.that(why:find "output 1, element 1, by input 1, element 1", why)
  check.raises("backward gives", function() autograd.gradcheck(Wrong.apply, x) end)
  check.raises("must be float64", function()
    autograd.gradcheck(moth.exp, moth.ones(1):requires_grad_())
  end)
  check.raises("no input requires grad", function() autograd.gradcheck(moth.exp, moth.ones(1)) end)
end)

check.test("gradcheck of strided inputs and of modules", function()
  local base = moth.randn(3, 2, { dtype = "float64" })
  check.that(autograd.gradcheck(function(a) return a:square() end, base:t():requires_grad_()), "t")
  local layer = nn.Linear(2, 2):double()
  local inputs = { double(0.1, 0.2), layer.weight, layer.bias }
  check.that(autograd.gradcheck(function(x) return layer(x) end, inputs), "a module")
end)

check.test("jacobian, hessian, vjp", function()
  local x = moth.tensor { 1.0, 2.0 }
  check.equal(autograd.jacobian(function(a) return a * a end, x):tolist(), { { 2, 0 }, { 0, 4 } })
  local rows = autograd.jacobian(function(a, b) return a * b end, { x, moth.tensor { 3.0, 4.0 } })
  check.equal(rows[1]:tolist(), { { 3, 0 }, { 0, 4 } })
  check.equal(rows[2]:tolist(), { { 1, 0 }, { 0, 2 } })
  check.equal(autograd.hessian(function(a) return (a * a * a):sum() end, x):tolist(),
    { { 6, 0 }, { 0, 12 } })
  check.equal(autograd.hessian(function(a) return a:sum() end, x):tolist(), { { 0, 0 }, { 0, 0 } })
  local y, g = autograd.vjp(function(a) return a * 3 end, x, moth.tensor { 1.0, 10.0 })
  check.equal(y:tolist(), { 3, 6 })
  check.equal(g:tolist(), { 3, 30 })
  local z = moth.no_grad(function() return autograd.jacobian(moth.exp, moth.zeros(1)) end)
  check.equal(z:tolist(), { { 1 } })
end)

check.done()
