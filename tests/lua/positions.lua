--- Operations that take and give positions: 1-based everywhere, checked before anything is written,
--- with messages that say where and what.
local moth = require "moth"
local check = require "check"

local x = moth.arange(12):reshape(3, 4):to("float32")

check.test("positions count from 1", function()
  check.equal(x:index_select(1, moth.tensor { 3, 1 }), { { 8, 9, 10, 11 }, { 0, 1, 2, 3 } })
  check.equal(x:gather(2, moth.tensor { { 1 }, { 4 }, { 2 } }), { { 0 }, { 7 }, { 9 } })
  check.equal(x:take(moth.tensor { 1, 12, -1 }), { 0, 11, 11 })
  check.equal(moth.nonzero(moth.tensor { 0, 3, 0, 5 }), { { 2 }, { 4 } })
  check.equal(moth.one_hot(moth.tensor { 1, 3 }, 3), { { 1, 0, 0 }, { 0, 0, 1 } })
  check.equal(moth.bincount(moth.tensor { 1, 2, 2, 4 }), { 1, 2, 0, 1 })
  local values, at = moth.tensor({ 1, 4, 4, 2 }):topk(2)
  check.equal(values, { 4, 4 })
  check.equal(at, { 2, 3 })
  check.equal(moth.tensor({ 3, 1, 2 }):argsort(), { 2, 3, 1 })
  check.equal(moth.searchsorted(moth.tensor { 1, 3, 5 }, moth.tensor { 0, 3, 9 }), { 1, 2, 4 })
  local _, inverse = moth.tensor({ 5, 2, 5 }):unique(true, true)
  check.equal(inverse, { 2, 1, 2 })
end)

check.test("a bad position is named with its place and range", function()
  local index = moth.tensor { 1, 2, 5, 9 }
  local why = check.raises("index 5 at position 3 is out of range %(expected 1%.%.3%)",
    function() return x:index_select(1, index) end)
  check.that(why == nil or why:find "index_select", why)
  check.raises("indices start at 1", function()
    return x:gather(1, moth.zeros({ 1, 4 }, { dtype = "int64" }))
  end)
  check.raises("expected integer positions", function() return x:take(moth.tensor { 1.0 }) end)
  check.raises("out of range", function() return moth.embedding(moth.tensor { 4 }, x) end)
  check.raises("out of range", function() return x:scatter(2, moth.tensor { { 5 } }, 1) end)
end)

check.test("what fails in place changes nothing", function()
  local y = x:clone()
  check.raises("out of range", function()
    y:index_add_(1, moth.tensor { 1, 2, 4 }, moth.ones { 3, 4 })
  end)
  check.raises("out of range", function() y[moth.tensor { 1, 4 }] = 0 end)
  check.raises("out of range", function() y:put_(moth.tensor { 1, 13 }, moth.ones { 2 }) end)
  check.equal(y, x)
end)

check.test("an embedding has no gradient for its padding row", function()
  local w = moth.ones({ 3, 2 }):requires_grad_()
  local y = moth.embedding(moth.tensor { 1, 2, 2 }, w, { padding_idx = 1 })
  check.equal(y, { { 1, 1 }, { 1, 1 }, { 1, 1 } })
  y:sum():backward()
  check.equal(w.grad, { { 0, 0 }, { 2, 2 }, { 0, 0 } })
  w.grad = nil
  moth.embedding(moth.tensor { 3, 2 }, w, { padding_idx = -1 }):sum():backward()
  check.equal(w.grad, { { 0, 0 }, { 1, 1 }, { 0, 0 } })
end)

check.test("writing through repeated positions adds up when asked to", function()
  local y = moth.zeros { 3 }
  y:index_put_({ moth.tensor { 2, 2, 3 } }, moth.tensor { 1.0, 2.0, 4.0 }, true)
  check.equal(y, { 0, 3, 4 })
  y[moth.tensor { true, false, true }] = -1
  check.equal(y, { -1, 3, -1 })
end)

check.test("NaN is the largest", function()
  local nan = 0 / 0
  local v = moth.tensor { -1, nan, 2, 1 }
  check.equal(v:sort(), { -1, 1, 2, nan })
  check.equal(v:sort { descending = true }, { nan, 2, 1, -1 })
  check.equal(v:topk(1), { nan })
  check.equal(v:topk(1, { largest = false }), { -1 })
  check.equal(v:median(), nan)
  check.equal(moth.max_pool1d(v:reshape(1, 1, 4), 2), { { { nan, 2 } } })
end)

check.test("sums over positions are the same for any number of threads", function()
  local n = 20000
  local index = moth.randint(1, 51, { n })
  local source = moth.randn { n, 33 }
  local threads = moth.get_num_threads()
  local results = {}
  for i, count in ipairs { 1, 2, 5 } do
    moth.set_num_threads(count)
    results[i] = moth.zeros({ 50, 33 }):index_add(1, index, source)
  end
  moth.set_num_threads(threads)
  check.that(results[1]:equal(results[2]) and results[1]:equal(results[3]))
end)

check.test("what pooling reports, unpooling takes", function()
  local image = moth.randn { 2, 3, 4, 6 }
  local y, at = moth.max_pool2d(image, 2, { return_indices = true })
  check.that(at:min():item() >= 1 and at:max():item() <= 24)
  local back = moth.max_unpool2d(y, at, 2)
  check.equal(back.shape, { 2, 3, 4, 6 })
  check.equal(moth.max_pool2d(back:relu(), 2), y:relu())
end)

check.test("empty tensors and empty indices", function()
  local none = moth.zeros({ 0 }, { dtype = "int64" })
  check.equal(x:index_select(1, none).shape, { 0, 4 })
  check.equal(moth.zeros({ 0, 3 }):sort(1).shape, { 0, 3 })
  check.equal(moth.nonzero(moth.zeros { 3 }).shape, { 0, 1 })
  check.equal(moth.max_pool2d(moth.zeros { 0, 3, 4, 4 }, 2).shape, { 0, 3, 2, 2 })
  check.equal(moth.cat({ x, moth.zeros { 0 } }, 1).shape, { 3, 4 })
  check.raises("in an empty range", function()
    return moth.zeros({ 0, 3 }):index_select(1, moth.tensor { 1 })
  end)
end)

check.done()
