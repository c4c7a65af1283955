-- Element types and empty tensors: what results are, and what raises.

local check = require "check"
local moth = require "moth"

local nan = 0 / 0
local function typed(t, dtype) return moth.tensor(t, { dtype = dtype }) end

check.test("sums of small integers are int64; arithmetic wraps in its own type", function()
  local s = moth.ones(256, { dtype = "uint8" }):sum()
  check.equal(s, 256)
  check.equal(s.dtype, "int64")
  check.equal(moth.tensor { true, true, true }:sum(), 3)
  check.equal(typed({ 100, 100 }, "int8"):sum(), 200)
  check.equal(typed({ 100 }, "int8") + typed({ 100 }, "int8"), { -56 })
  check.equal(moth.tensor { math.maxinteger } + 1, { math.mininteger })
  check.raises("mean", function() return moth.tensor { 1, 2 }:mean() end)
  check.raises("", function() return moth.tensor { true } - moth.tensor { true } end)
end)

check.test("a number or a 0-d tensor changes the type only by a higher category", function()
  local i8 = typed({ 1, 2 }, "int8")
  local half = typed({ 1.0, 2.0 }, "float16")
  check.equal((i8 * moth.tensor(3)).dtype, "int8")
  check.equal((i8 * moth.tensor { 3, 4 }).dtype, "int64")
  check.equal((i8 * 1.5).dtype, "float32")
  check.equal((half * typed(2.0, "float64")).dtype, "float16")
  check.equal((half * typed({ 2.0, 3.0 }, "float64")).dtype, "float64")
  check.equal((moth.tensor { 1 } / moth.tensor { 2 }).dtype, "float32")
  check.raises("div", function() moth.tensor { 4 }:div_(2) end)
end)

check.test("positions do not depend on the element type", function()
  for _, dtype in ipairs { "int8", "uint8", "int16" } do
    local n = dtype == "int16" and 32770 or 258
    local x = moth.zeros(n, { dtype = dtype })
    x[n] = 1
    check.equal(x:argmax(), n)
    check.equal(x:argmax().dtype, "int64")
    local _, where = x:topk(1)
    check.equal(where.dtype, "int64")
  end
end)

check.test("numbers that come back are integers when they were", function()
  local t = moth.zeros(3, 2)
  check.equal(math.type(t:size(1)), "integer")
  check.equal(math.type(moth.tensor { 1, 2 }:sum():item()), "integer")
  check.equal(moth.zeros(3.0):numel(), 3)
  check.raises("size", moth.zeros, 2.5)
  check.equal(moth.tensor({ 5, 6 })[2.0], 6)
  local big = 2 ^ 53 | 0
  check.equal(moth.tensor(big + 1):item(), 9007199254740993)
end)

check.test("positions are 1-based everywhere", function()
  local x = moth.tensor { 1, 4, 4, 2 }
  check.equal(x:argmax(), 2)
  local _, at = x:max(1)
  check.equal(at, 2)
  local values, where = x:topk(2)
  check.equal(values, { 4, 4 })
  check.equal((where:sort()), { 2, 3 })
  local _, order = x:sort { stable = true }
  check.equal(order, { 1, 4, 2, 3 })
  check.equal(x:eq(4):nonzero(), { { 2 }, { 3 } })
  check.equal(moth.arange(1, 6):one_hot(5), moth.eye(5):to("int64"))
  local _, pooled = moth.nn.functional.max_pool1d(
    moth.tensor { { { 1.0, 3.0, 2.0, 9.0 } } }, 2, { return_indices = true })
  check.equal(pooled, { { { 2, 4 } } })
end)

check.test("reductions of nothing: a neutral element, NaN, or an error", function()
  check.equal(moth.zeros(1, 0):sum(2), { 0 })
  check.equal(moth.zeros(0):sum(), 0)
  check.equal(moth.zeros(0):prod(), 1)
  check.equal(moth.zeros(0):mean(), nan)
  check.equal(moth.zeros(0, { dtype = "bool" }):any(), false)
  check.equal(moth.zeros(0, { dtype = "bool" }):all(), true)
  check.equal(moth.zeros(2, 0):mean(2), { nan, nan })
end)

check.test("maxima of nothing raise, those of no rows are empty", function()
  local values, where = moth.zeros(2, 0):max(1)
  check.equal(values:numel(), 0)
  check.equal(where.dtype, "int64")
  check.raises("max", function() return moth.zeros(0):max() end)
  check.raises("max", function() return moth.zeros(0, 3):max(1) end)
  check.equal(moth.zeros(1, 0):argmax(1).shape, { 0 })
  check.raises("argmax", function() return moth.zeros(0):argmax(1) end)
end)

check.test(
  "products with an empty inner dim are zeros, with gradients of the right shapes",
  function()
  local a = moth.ones(2, 0):requires_grad_()
  local b = moth.ones(0, 3):requires_grad_()
  local y = a:matmul(b)
  check.equal(y, { { 0, 0, 0 }, { 0, 0, 0 } })
  y:sum():backward()
  check.equal(a.grad.shape, { 2, 0 })
  check.equal(b.grad.shape, { 0, 3 })
  check.equal(moth.zeros(0, 2, 3):bmm(moth.zeros(0, 3, 4)).shape, { 0, 2, 4 })
  local F = moth.nn.functional
  check.equal(F.linear(moth.zeros(0, 2), moth.zeros(3, 2)).shape, { 0, 3 })
  local bias = moth.full({ 2, 2 }, 5.0)
  check.equal(bias:addmm(moth.zeros(2, 0), moth.zeros(0, 2)), { { 5, 5 }, { 5, 5 } })
  local bad = moth.full({ 1, 1 }, nan)
  check.equal(bad:addmm(moth.ones(1, 1), moth.ones(1, 1), { beta = 0 }), { { 1 } })
end)

check.test("convolution and pooling of an empty batch", function()
  local F = moth.nn.functional
  check.equal(F.conv2d(moth.zeros(0, 3, 8, 8), moth.zeros(4, 3, 3, 3)).shape, { 0, 4, 6, 6 })
  check.equal(F.max_pool2d(moth.zeros(0, 3, 8, 8), 2).shape, { 0, 3, 4, 4 })
end)

check.test("sizes whose product does not fit raise", function()
  check.raises("", function() return moth.zeros(2 ^ 32 | 0, 2 ^ 32 | 0) end)
  check.raises("", function() return moth.zeros(2 ^ 40 | 0, 2 ^ 20 | 0) end)
end)

check.done()
