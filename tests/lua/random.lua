--- Drawn numbers: fixed by the seed, whatever the number of threads; senseless draws raise.
local moth = require "moth"
local autograd = require "moth.autograd"
local check = require "check"

local function with_threads(n, f)
  local before = moth.get_num_threads()
  moth.set_num_threads(n)
  local result = f()
  moth.set_num_threads(before)
  return result
end

local draws = {
  rand = function() return moth.rand { 100003 } end,
  randn = function() return moth.randn { 100003 } end,
  randn64 = function() return moth.randn({ 50001 }, { dtype = "float64" }) end,
  randint = function() return moth.randint(-5, 100, { 70001 }) end,
  randperm = function() return moth.randperm(50000) end,
  bernoulli = function() return moth.full({ 60001 }, 0.3):bernoulli() end,
  dropout = function() return moth.dropout(moth.ones { 90001 }, 0.4) end,
  multinomial = function() return moth.multinomial(moth.ones { 50, 20 }, 7) end,
  poisson = function() return moth.poisson(moth.full({ 20001 }, 3.5)) end,
}

for name, draw in pairs(draws) do
  check.test(name .. " follows from the seed, for any number of threads", function()
    local results = {}
    for i, n in ipairs { 1, 2, 6, 1 } do
      moth.manual_seed(i == 4 and 12 or 11)
      results[i] = with_threads(n, draw)
    end
    check.that(results[1]:equal(results[2]) and results[1]:equal(results[3]))
    check.that(not results[1]:equal(results[4]), "another seed gives other numbers")
    check.that(not draw():equal(draw()), "the next call gives other numbers")
  end)
end

check.test("the gradient of dropout is its mask, and so on", function()
  local x = moth.ones({ 1000 }, { dtype = "float64" }):requires_grad_()
  local y = moth.dropout(x, 0.25)
  y:sum():backward()
  check.that(x.grad:equal(y:detach()), "the gradient is the mask, scaled")
  local w = moth.randn({ 1000 }, { dtype = "float64" }):requires_grad_()
  local g = autograd.grad({ (moth.dropout(x, 0.25) * w):sum() }, { x }, { create_graph = true })[1]
  local h = autograd.grad({ g:sum() }, { w })[1]
  check.close(g:detach(), h * w:detach(), 1e-12)
  check.that(moth.dropout(x, 0.5, false):equal(x) and moth.dropout(x, 0):equal(x))
  check.equal(moth.dropout(x, 1):abs():sum():item(), 0)
end)

check.test("a position of weight zero is never drawn", function()
  local at = moth.multinomial(moth.tensor { 0.33, 0.34, 0, 0.33 }, 1000000, true)
  check.that(at:min():item() == 1 and at:max():item() == 4)
  check.that(not at:eq(3):any():item())
  local counts = moth.bincount(at)
  check.that(math.abs(counts[2]:item() - 340000) < 5 * 474)
end)

check.test("draws that make no sense raise", function()
  check.raises("probabilities", function() moth.multinomial(moth.tensor { 1.0, 0.0, 1.0 }, 3) end)
  check.raises("probabilities", function() moth.multinomial(moth.tensor { 0.0, 0.0 }, 1) end)
  check.raises("probabilities", function() moth.multinomial(moth.tensor { 1.0, -1.0 }, 1) end)
  check.raises("without replacement", function() moth.multinomial(moth.ones { 2 }, 3) end)
  check.raises("probabilities", function() moth.tensor({ 1.5 }):bernoulli() end)
  check.raises("nothing to draw from", function() moth.randint(3, 3, { 2 }) end)
  check.raises("probability", function() moth.dropout(moth.ones { 2 }, 1.5) end)
  check.raises("cannot be negative", function() moth.zeros({ 2 }):normal_(0, -1) end)
end)

check.test("fills keep shape, dtype and strides", function()
  local x = moth.zeros({ 4, 6 }, { dtype = "float16" }):t()
  check.that(x:uniform_(2, 3):ge(2):all():item() and x:lt(3):all():item())
  check.equal(x.shape, { 6, 4 })
  check.equal(x.dtype, "float16")
  local i = moth.zeros({ 1000 }, { dtype = "uint8" }):random_()
  check.that(i:max():item() > 200 and i:min():item() < 50)
  check.that(moth.zeros({ 100 }):geometric_(0.5):ge(1):all():item())
  local t = moth.zeros({ 10000 }):trunc_normal_(0, 1, -0.5, 1)
  check.that(t:min():item() >= -0.5 and t:max():item() <= 1)
end)

check.done()
