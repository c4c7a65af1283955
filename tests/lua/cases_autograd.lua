-- Gradients at the edges, in-place writes that must raise, and views that must not be written.

local check = require "check"
local moth = require "moth"
local autograd = require "moth.autograd"

local inf, nan = math.huge, 0 / 0
local F = moth.nn.functional
local function leaf(t) return moth.tensor(t, { dtype = "float64", requires_grad = true }) end
local function gradient(f, t)
  local x = leaf(t)
  f(x):sum():backward()
  return x.grad
end

check.test("logsumexp: gradients at infinities are finite", function()
  local function f(x) return x:logsumexp(1) end
  check.equal(gradient(f, { -inf, -inf }), { 0, 0 })
  check.equal(gradient(f, { -inf, 1.0 }), { 0, 1 })
  check.equal(gradient(f, { inf, 1.0 }), { 1, 0 })
end)

check.test("norms: gradients at zero are zero, of a composite they are NaN", function()
  for _, p in ipairs { 1, 2, 3, inf } do
    check.equal(gradient(function(x) return x:norm(p) end, { 0.0, 0.0 }), { 0, 0 }, "p " .. p)
  end
  check.equal(gradient(function(x) return x:pow(2):sum():sqrt() end, { 0.0, 0.0 }), { nan, nan })
  check.equal(gradient(function(x) return x:norm(inf) end, { 3.0, -3.0, 1.0 }), { 0.5, -0.5, 0 })
end)

check.test("where: forward is clean, and the form with two wheres has clean gradients", function()
  local x = leaf { 16.0, 0.0 }
  local y = moth.where(x:eq(0), x / 2, x:sqrt() + 1)
  check.equal(y, { 5, 0 })
  local safe = moth.where(x:eq(0), moth.ones_like(x), x)
  moth.where(x:eq(0), x / 2, safe:sqrt() + 1):sum():backward()
  check.equal(x.grad, { 0.125, 0.5 })
end)

check.test("normalize: finite at zero", function()
  check.equal(F.normalize(moth.zeros(3), 2, 1), { 0, 0, 0 })
  local g = gradient(function(x) return F.normalize(x, 2, 1) end, { 0.0, 0.0, 0.0 })
  check.close(g, { 1e12, 1e12, 1e12 }, 1e-9)
  local row = { { 0.0, 0.0, 0.0, 0.0, 0.1996 } }
  local h = gradient(function(x) return F.normalize(x, 1, 2) end, row)
  check.close(h, { { 5.01002, 5.01002, 5.01002, 5.01002, 0 } }, 1e-5)
end)

check.test("a broadcast operand gets the sum of its gradients", function()
  local z = leaf { 1.0 }
  local e = math.exp(1)
  local f = (z:exp() - 0):sum() + (z:exp() - moth.zeros(1000, { dtype = "float64" })):sum()
  check.close(f, 1001 * e, 1e-9)
  f:backward()
  check.close(z.grad, { 1001 * e }, 1e-9)
end)

check.test("leaves with equal values are different leaves", function()
  local a, b = leaf(3.0), leaf(3.0)
  local c = leaf(3.0)
  local s = a + b
  s:backward()
  check.equal(a.grad, 1)
  check.equal(b.grad, 1)
  local t = c + c
  t:backward()
  check.equal(c.grad, 2)
end)

check.test("embedding: the padding row gets no gradient, but is returned as it is", function()
  local e = moth.nn.Embedding(3, 2, { padding_idx = 1 })
  check.equal(e.weight[1], { 0, 0 })
  moth.no_grad(function() e.weight:fill_(1) end)
  local y = e(moth.tensor { 1, 2, 2 })
  check.equal(y, { { 1, 1 }, { 1, 1 }, { 1, 1 } })
  y:sum():backward()
  check.equal(e.weight.grad, { { 0, 0 }, { 2, 2 }, { 0, 0 } })
end)

check.test("binary cross entropy: second derivatives, and the bounded logarithm", function()
  local x, y = leaf { 0.2, 0.7 }, moth.tensor({ 0.0, 1.0 }, { dtype = "float64" })
  for _, reduction in ipairs { "sum", "mean" } do
    local function f(a) return F.binary_cross_entropy(a, y, { reduction = reduction }) end
    check.that(autograd.gradgradcheck(f, { x }))
  end
  check.equal(F.binary_cross_entropy(moth.zeros(1), moth.ones(1)), 100)
end)

check.test("writing to what backward needs raises and names the operation", function()
  local a = leaf { 1.0, 2.0 }
  local b = a:exp()
  b:mul_(2)
  check.raises("exp", function() b:sum():backward() end)
  local x, w = leaf { { 1.0, 2.0 } }, leaf { { 1.0 }, { 1.0 } }
  local h = x * 1
  local y = h:matmul(w)
  h:add_(1)
  check.raises("matmul", function() y:sum():backward() end)
  local c = leaf { 1.0 }
  local d = c + 1
  d:mul_(2)
  d:sum():backward()
  check.equal(c.grad, { 2 })
end)

check.test("views of several results and leaves cannot be written in place", function()
  local root = leaf { { 1.0, 2.0 }, { 3.0, 4.0 } }
  local x = root:clone()
  local v = x:unbind()[1]
  check.raises("", function() v:mul_(2) end)
  check.raises("", function() root:add_(1) end)
  check.raises("", function() root[1]:add_(1) end)
  check.equal(root, { { 1, 2 }, { 3, 4 } })
end)

check.test("a tensor that overlaps itself is not written", function()
  check.raises("", function() moth.ones(1):expand(4):add_(moth.ones(4)) end)
  check.raises("", function() moth.tensor(0.7):expand(3):cos_() end)
  local z = moth.zeros(1)
  check.raises("", function() z:expand(3):copy_(moth.tensor { 1.0, 2.0, 3.0 }) end)
  check.equal(z, { 0 })
end)

check.test(
  "reading and writing the same memory: as if the input were copied, or an error",
  function()
  local x = moth.arange(10000):reshape(100, 100)
  local ok = pcall(function() x:add_(x:t()) end)
  check.equal(x:sum(), ok and 99990000 or 49995000)
  local function shifted(f, want)
    local y = moth.arange(6)
    if pcall(f, y[{ { 2, 6 } }], y[{ { 1, 5 } }]) then
      check.equal(y, want)
    else
      check.equal(y, { 0, 1, 2, 3, 4, 5 })
    end
  end
  shifted(function(a, b) a:copy_(b) end, { 0, 0, 1, 2, 3, 4 })
  shifted(function(a, b) a:add_(b) end, { 0, 1, 3, 5, 7, 9 })
end)

check.test("ranges keep their sizes; those beyond the end are cut", function()
  local x = moth.ones(10, 10)
  check.equal(x[{ { 1, -2 }, 1 }].shape, { 9 })
  check.equal(x[{ { 5, 4 } }]:size(1), 0)
  check.equal(x[{ { 5, 1000 } }]:size(1), 6)
end)

check.test("the gradient of a maximum with many ties is shared exactly", function()
  local n = 2 ^ 20 + 2 | 0
  local x = moth.zeros(n):requires_grad_()
  x:max():backward()
  check.close(x.grad:to("float64"):sum(), 1, 1e-6)
end)

check.test("an error in a hook leaves the grad mode and the next backward alone", function()
  local x = leaf { 1.0, 2.0 }
  local y = x * 2
  y:register_hook(function() error("from the hook", 0) end)
  check.raises("from the hook", function() y:sum():backward() end)
  check.that(moth.is_grad_enabled())
  x.grad = nil
  local z = (x * 3):sum()
  z:backward()
  check.equal(x.grad, { 3, 3 })
end)

check.done()
