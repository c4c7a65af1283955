-- Numbers at the edges: infinities, NaN, sums of short floats, ranges, remainders.

local check = require "check"
local moth = require "moth"

local inf, nan = math.huge, 0 / 0
local F = moth.nn.functional
local function vector(t, dtype) return moth.tensor(t, { dtype = dtype or "float32" }) end
local function zero_sign(t) return 1 / t:item() end

check.test("softmax of a row of -inf is NaN, of other rows it is not", function()
  local x = vector { { -inf, -inf }, { 0, -inf } }
  check.equal(x:softmax(2), { { nan, nan }, { 1, 0 } })
  check.equal(vector { -inf, -inf }:log_softmax(1), { nan, nan })
end)

check.test(
  "attention: a query that may look at nothing gets zeros and spoils no gradient",
  function()
  local q = moth.randn(1, 2, 3):requires_grad_()
  local k = moth.randn(1, 2, 3):requires_grad_()
  local v = moth.randn(1, 2, 3):requires_grad_()
  local mask = moth.tensor { { true, true }, { false, false } }
  local y = F.scaled_dot_product_attention(q, k, v, { attn_mask = mask })
  check.equal(y[{ 1, 2 }], { 0, 0, 0 })
  y:sum():backward()
  for _, x in ipairs { q, k, v } do check.that(not x.grad:isnan():any():item(), "NaN gradient") end
end)

check.test("logsumexp and logaddexp of infinities and of large numbers", function()
  local cases = {
    { { -inf, -inf }, -inf }, { { inf, 1 }, inf }, { { inf, -inf }, inf }, { { inf, inf }, inf },
    { { nan, 1 }, nan }, { { 1000, 1000 }, 1000.6931 }, { { -1000, -1000 }, -999.3068 },
  }
  for _, c in ipairs(cases) do check.close(vector(c[1]):logsumexp(1), c[2], 1e-6) end
  check.equal(moth.zeros(0):logsumexp(1), -inf)
  check.equal(moth.logaddexp(vector { -inf, inf }, vector { -inf, inf }), { -inf, inf })
end)

check.test("sums of half floats accumulate in float32 and round once", function()
  check.equal(moth.ones(4096, { dtype = "float16" }):sum(), 4096)
  check.equal(moth.ones(20000, { dtype = "float16" }):sum(), 20000)
  check.equal(moth.ones(70000, { dtype = "bfloat16" }):sum(), 70144)
  check.equal(moth.ones(70000, { dtype = "bfloat16" }):mean(), 1)
end)

check.test("a mean fits although the sum does not", function()
  check.equal(moth.ones(100000, { dtype = "float16" }):mean(), 1)
  check.equal(moth.ones(2, 100000, { dtype = "float16" }):mean(2), { 1, 1 })
  check.equal(moth.ones(100000, { dtype = "float16" }):sum(), inf)
end)

check.test("deviations of one and of no element", function()
  check.equal(vector { 5 }:std(), nan)
  check.equal(vector { 5 }:std { unbiased = false }, 0)
  check.equal(vector { 5 }:var(), nan)
  check.equal(moth.zeros(0):std(), nan)
  check.equal(moth.randn(1, 3):std(1), { nan, nan, nan })
  local x = vector({ 1, 1, 1 }):requires_grad_()
  x:std():backward()
  check.equal(x.grad, { 0, 0, 0 })
  local one = vector({ 5 }):requires_grad_()
  one:std():backward()
  check.equal(one.grad, { nan })
end)

check.test(
  "remainders and quotients of integers follow the sign of the divisor, as in Lua",
  function()
  local x = moth.tensor { -1, -2, 5 }
  check.equal(x:remainder(3), { 2, 1, 2 })
  check.equal(x % 3, { 2, 1, 2 })
  check.equal(x:fmod(3), { -1, -2, 2 })
  check.equal(moth.tensor { 5, -5 }:remainder(-3), { -1, -2 })
  local a, b = moth.tensor { -7, 7, -7 }, moth.tensor { 2, -2, -2 }
  check.equal(a:div(b, { rounding_mode = "floor" }), { -4, -4, 3 })
  check.equal(a // b, { -4, -4, 3 })
  check.equal(a:div(b, { rounding_mode = "trunc" }), { -3, -3, 3 })
end)

check.test(
  "zero remainders have the divisor's sign; quotients are floors of the exact ones",
  function()
  check.equal(zero_sign(vector { -1.0 }:remainder(1.0)), inf)
  check.equal(zero_sign(vector { 2.0 }:remainder(-1.0)), -inf)
  check.equal(vector { -1e-20 }:remainder(1.0), { 1.0 })
  check.equal(vector { -5 }:remainder(inf), { inf })
  check.equal(vector({ -1 }, "float64"):floor_divide(1 / 3), { -4 })
end)

check.test("arange counts in double precision", function()
  local cases = {
    { 0.1, 0.5, 0.05, 8 }, { 0, 1, 0.2, 5 }, { 0.6, 0.9, 0.1, 4 }, { 0, 1.3, 0.1, 13 },
    { 0, 1, 1 / 49, 50 },
  }
  for _, c in ipairs(cases) do check.equal(moth.arange(c[1], c[2], c[3]):numel(), c[4]) end
  check.equal(moth.arange(0, 0):numel(), 0)
  check.raises("arange", moth.arange, 5, 0)
end)

check.test("NaN wins in max, sort, median and clamp; fmax drops it", function()
  local x = vector { -1, nan, 2, 1 }
  check.equal(x:max(), nan)
  check.equal(x:min(), nan)
  check.equal(x:argmax(), 2)
  check.equal((x:sort()), { -1, 1, 2, nan })
  check.equal((x:sort { descending = true }), { nan, 2, 1, -1 })
  check.equal((x:topk(1)), { nan })
  check.equal((x:topk(1, { largest = false })), { -1 })
  if x.median then check.equal((x:median()), nan) end
  check.equal(vector { nan }:maximum(vector { 1 }), { nan })
  check.equal(moth.fmax(vector { nan }, vector { 1 }), { 1 })
  check.equal(x:clamp(0, 1), { 0, nan, 1, 1 })
  check.equal(x:relu(), { 0, nan, 2, 1 })
  check.equal(F.max_pool1d(x:reshape(1, 1, 4), 4), { { { nan } } })
end)

check.test("cross entropy of nothing: NaN for the mean, gradients of zero", function()
  local x = moth.randn(2, 3):requires_grad_()
  local ignored = moth.tensor { -100, -100 }
  local mean = F.cross_entropy(x, ignored)
  check.equal(mean, nan)
  mean:backward()
  check.equal(x.grad, { { 0, 0, 0 }, { 0, 0, 0 } })
  check.equal(F.cross_entropy(x, ignored, { reduction = "sum" }), 0)
  check.equal(F.cross_entropy(x, ignored, { reduction = "none" }), { 0, 0 })
  local none = F.cross_entropy(moth.zeros(0, 3), moth.zeros(0, { dtype = "int64" }))
  check.equal(none, nan)
end)

check.test("class targets outside of the classes raise and say where", function()
  local x = moth.randn(2, 3)
  for _, bad in ipairs { 4, 0, -4 } do
    local message = check.raises("cross_entropy", F.cross_entropy, x, moth.tensor { 1, bad },
      { ignore_index = -1 })
    check.that(message:find(tostring(bad), 1, true), message)
  end
  check.raises("1", F.cross_entropy, x, moth.tensor { 1, 0 })
end)

check.test(
  "cross entropy: ignore_index is a class from 1, negative ones are plain marks",
  function()
  local x = moth.randn(3, 3)
  local t = moth.tensor { 1, 3, 2 }
  local each = F.cross_entropy(x, t, { reduction = "none" })
  local first = F.cross_entropy(x, t, { ignore_index = 1, reduction = "none" })
  check.equal(first, { 0, each[2]:item(), each[3]:item() })
  local last = F.cross_entropy(x, t, { ignore_index = 3, reduction = "none" })
  check.equal(last, { each[1]:item(), 0, each[3]:item() })
  check.raises("start at 1", F.cross_entropy, x, t, { ignore_index = 0 })
end)

check.test("multinomial never draws what has no weight", function()
  moth.manual_seed(1)
  local w = vector { 0.33, 0.34, 0, 0.33 }
  local drawn = w:multinomial(20000, { replacement = true })
  check.equal(drawn:eq(3):sum(), 0)
  check.raises("multinomial", function() return vector { 1, 0, 1 }:multinomial(3) end)
  check.raises("multinomial", function() return vector { 0, 0 }:multinomial(1) end)
  check.raises("multinomial", function() return vector { 1, -1 }:multinomial(1) end)
end)

check.done()
