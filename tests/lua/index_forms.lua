-- x[key] and x[key] = value: the documented forms one by one, and what is said of wrong ones.

local check = require "check"
local moth = require "moth"

local x = moth.arange(1, 13):reshape(3, 4)

check.test("positions count from 1, negative ones from the end", function()
  check.equal(x[2]:tolist(), { 5, 6, 7, 8 })
  check.equal(x[-1]:tolist(), { 9, 10, 11, 12 })
  check.equal(x[2.0]:tolist(), { 5, 6, 7, 8 })
  check.equal(x[{ 2, 3 }]:item(), 7)
  check.equal(x[{ -1, -4 }]:item(), 9)
end)

check.test("ranges are inclusive and cut at the ends", function()
  check.equal(x[{ { 2, 3 }, 1 }]:tolist(), { 5, 9 })
  check.equal(x[{ {}, { 1, 4, 2 } }]:tolist(), { { 1, 3 }, { 5, 7 }, { 9, 11 } })
  check.equal(x[{ { 2, 100 } }]:size(), { 2, 4 })
  check.equal(x[{ { -100, 1 } }]:size(), { 1, 4 })
  check.equal(x[{ { 3, 2 } }]:size(), { 0, 4 })
  check.equal(x[{ { 1, 0 } }]:size(), { 0, 4 })
  check.equal(x[{ { 7, 9 } }]:size(), { 0, 4 })
  check.equal(moth.ones(10, 10)[{ { 1, -2 }, 1 }]:size(), { 9 })
end)

check.test("a key of ranges and positions is a view", function()
  local y = moth.zeros(3, 4)
  local v = y[{ { 2, 3 }, { 1, 2 } }]
  v:fill_(1)
  y[{}]:add_(1)
  check.equal(y:tolist(), { { 1, 1, 1, 1 }, { 2, 2, 1, 1 }, { 2, 2, 1, 1 } })
  local s = moth.tensor(5.0)
  s[{}]:add_(1)
  s[{ "..." }] = s + 1
  check.equal(s:item(), 7.0)
end)

check.test("ellipsis and newaxis, alone and in a table", function()
  check.equal(x["..."]:size(), { 3, 4 })
  check.equal(x[moth.newaxis]:size(), { 1, 3, 4 })
  check.equal(x[{ "...", 1 }]:tolist(), { 1, 5, 9 })
  check.equal(x[{ {}, moth.newaxis, 2 }]:size(), { 3, 1 })
  check.equal(x[{ "...", moth.newaxis }]:size(), { 3, 4, 1 })
end)

check.test("index tensors and masks alone", function()
  check.equal(x[moth.tensor { 3, 1 }]:tolist(), { { 9, 10, 11, 12 }, { 1, 2, 3, 4 } })
  check.equal(x[moth.tensor(2)]:tolist(), { 5, 6, 7, 8 })
  check.equal(x[x:gt(10)]:tolist(), { 11, 12 })
  check.equal(x[moth.tensor { true, false, true }]:size(), { 2, 4 })
  check.equal(x[moth.tensor(true)]:size(), { 1, 3, 4 })
  check.equal(x[moth.tensor(false)]:size(), { 0, 3, 4 })
end)

check.test("numbers, booleans and broadcast tensors can be assigned", function()
  local y = moth.zeros(2, 3)
  y[1] = 5
  y[{ 2, 3 }] = true
  check.equal(y:tolist(), { { 5, 5, 5 }, { 0, 0, 1 } })
  y[{ {}, { 1, 2 } }] = moth.tensor { 7, 8 }
  check.equal(y:tolist(), { { 7, 8, 5 }, { 7, 8, 1 } })
  y[1] = moth.ones(1, 1, 3)
  y[y:gt(6)] = 0
  check.equal(y:tolist(), { { 1, 1, 1 }, { 0, 0, 1 } })
  y[y:eq(1)] = moth.tensor { 1, 2, 3, 4 }
  check.equal(y:tolist(), { { 1, 2, 3 }, { 0, 0, 4 } })
  local i = moth.zeros(3, { dtype = "int64" })
  i[2] = 2.75
  check.equal(i:tolist(), { 0, 2, 0 })
end)

check.test("writing rows in a loop is differentiable", function()
  local w = moth.tensor { 1.0, 2.0, 3.0 }
  w:requires_grad_()
  local h = moth.zeros(3, 3)
  for t = 1, 3 do h[t] = w * t end
  (h * h):sum():backward()
  check.equal(w.grad:tolist(), { 28, 56, 84 })
end)

check.test("what is wrong is said, counted from 1", function()
  check.raises("indices start at 1", function() return x[0] end)
  check.raises("out of range 1%.%.3", function() return x[4] end)
  check.raises("out of range 1%.%.3", function() return x[-4] end)
  check.raises("item 2: position 5 is out of range 1%.%.4", function() return x[{ 1, 5 }] end)
  check.raises("item 2: indices start at 1", function() return x[{ 1, 0 }] end)
  check.raises("too many", function() return x[{ 1, 1, 1 }] end)
  check.raises("last position", function() return x[{ { 2 } }] end)
  check.raises("step", function() return x[{ { 3, 1, -1 } }] end)
  check.raises("range from 0", function() return x[{ { 0, 1 } }] end)
  check.raises("range is", function() return x[{ { 1, "2" } }] end)
  check.raises("list of items", function() return x[{ first = 1 }] end)
  check.raises("integer", function() return x[1.5] end)
  check.raises("only one", function() return x[{ "...", "..." }] end)
  check.raises("got boolean", function() return x[true] end)
  check.raises("integers", function() return x[moth.ones(2)] end)
  check.raises("mask of shape %(2%) does not fit dims of shape %(3%)", function()
    return x[moth.tensor { true, false }]
  end)
  check.raises("4", function() return x[moth.tensor { 1, 4 }] end)
  check.raises("broadcast", function()
    return x[{ moth.tensor { 1, 2 }, moth.tensor { 1, 2, 3 } }]
  end)
  check.raises("empty", function() return moth.zeros(0)[1] end)
  check.raises("got table", function() x[1] = { 1, 2 } end)
  check.raises("expand", function() x[1] = moth.ones(3) end)
  check.raises("index_forms.lua:%d+:", function() return x[9] end)
  local leaf = moth.zeros(3):requires_grad_()
  check.raises("leaf", function() leaf[1] = 1 end)
end)

check.done()
