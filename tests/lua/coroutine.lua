-- coroutine.resume and coroutine.wrap are replaced (an interrupt has to find the coroutine that
-- runs); nothing else about them may differ from Lua's own.

local check = require "check"

check.test("values go in and out", function()
  local co = coroutine.create(function(a, b)
    local c, d = coroutine.yield(a + b)
    local e = coroutine.yield(c * d)
    return e, nil, "end"
  end)
  check.equal({ coroutine.resume(co, 1, 2) }, { true, 3 })
  check.equal({ coroutine.resume(co, 4, 5) }, { true, 20 })
  local all = table.pack(coroutine.resume(co, 6))
  check.equal(all.n, 4)
  check.equal({ all[1], all[2], all[4] == "end" }, { true, 6, true })
  check.equal(coroutine.status(co), "dead")
  check.equal({ coroutine.resume(co) }, { false, "cannot resume dead coroutine" })
  local next_square = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i * i) end end)
  check.equal({ next_square(), next_square(), next_square() }, { 1, 4, 9 })
end)

check.test("errors are Lua's", function()
  local ok, message = coroutine.resume(coroutine.create(function() error("boom", 0) end))
  check.equal({ ok, message }, { false, "boom" })
  local object = {}
  ok, message = pcall(coroutine.wrap(function() error(object) end))
  check.that(not ok and message == object, "error objects pass")
  check.raises("coroutine.lua:%d+: boom$",
    function() coroutine.wrap(function() error("boom", 0) end)() end)
  check.raises("thread expected", coroutine.resume, 1)
  check.raises("function expected", coroutine.wrap, 1)
  check.raises("dead coroutine", function()
    local f = coroutine.wrap(function() end)
    f()
    f()
  end)
end)

check.test("coroutines nest, yield across pcall and close", function()
  local function nest(n)
    if n == 0 then return coroutine.isyieldable() end
    return coroutine.wrap(nest)(n - 1)
  end
  check.equal(nest(30), true)
  local f = coroutine.wrap(function()
    return pcall(function() return coroutine.yield(1) + 1 end)
  end)
  check.equal(f(), 1)
  check.equal({ f(2) }, { true, 3 })
  local closed
  local co = coroutine.create(function()
    local _ <close> = setmetatable({}, { __close = function() closed = true end })
    coroutine.yield()
  end)
  coroutine.resume(co)
  coroutine.close(co)
  check.that(closed)
  check.equal(coroutine.running() == coroutine.running(), true)
end)

check.done()
