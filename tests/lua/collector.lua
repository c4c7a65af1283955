-- Who frees tensors, and when: bounds in tensors, without a collectgarbage() in any loop.

local check = require "check"
local moth = require "moth"

-- Highest live memory above what lived before, in units of `bytes`, while f runs.
local function peak(bytes, f)
  collectgarbage()
  collectgarbage()
  moth.reset_peak_memory_stats()
  local before = moth.memory_stats().live
  f()
  return (moth.memory_stats().peak - before) / bytes
end

local SMALL, LARGE = 10000, 25000000 -- 40 KB and 100 MB of float32

check.test("a loop of 40 KB tensors stays within 10 of them", function()
  local t = peak(4 * SMALL, function()
    for _ = 1, 10000 do local _ = moth.empty(SMALL) end
  end)
  check.that(t <= 10, t)
end)

check.test("expressions, chains and functions stay within 1 MB", function()
  local a, b = moth.ones(SMALL), moth.ones(SMALL)
  local function five(x)
    local p = x + b
    local q = p + b
    local r = q + p
    local s = r + q
    return s + r
  end
  local loops = {
    add = function() local _ = a + b end,
    expression = function() local _ = (a + b) + a + b end,
    chain = function() local _ = (a + b):add(a):add(b) end,
    five = function() local _ = five(a) end,
    views = function() local _ = (a + b):view(100, 100):t() end,
    table_kept = function() local _ = { a + b, a + a } end,
    keywords = function() local _ = a:add(b, { alpha = 2 }) end,
  }
  for name, f in pairs(loops) do
    local t = peak(4 * SMALL, function() for _ = 1, 2000 do f() end end)
    check.that(t <= 26, name .. ": " .. t) -- five values live in a frame, and stale registers
  end
  local s = moth.zeros(SMALL)
  local t = peak(4 * SMALL, function() for _ = 1, 2000 do s = s + a end end)
  check.that(t <= 32, t)
end)

check.test("a graph goes with its result", function()
  local w = moth.ones(SMALL, { requires_grad = true })
  local t = peak(4 * SMALL, function()
    for _ = 1, 1000 do local _ = (w + 1) * w * w end
  end)
  check.that(t <= 30, t)
end)

check.test("a long chain of operations is freed without recursion", function()
  local x = moth.ones(2, { requires_grad = true })
  local alive = moth.gc().alive
  do
    local y = x
    for _ = 1, 200000 do y = y + 1 end
  end
  collectgarbage()
  collectgarbage()
  check.that(moth.gc().alive <= alive + 8, moth.gc().alive - alive)
end)

check.test("errors in pcall leave nothing behind", function()
  local a, b = moth.ones(SMALL), moth.ones(SMALL - 1)
  local t = peak(4 * SMALL, function()
    for _ = 1, 5000 do
      pcall(function()
        local c = a + a
        local d = c + a
        return d + b
      end)
    end
  end)
  check.that(t <= 30, t)
  local before = collectgarbage("count")
  for _ = 1, 100000 do pcall(moth.add, a, "x") end
  collectgarbage()
  check.that(collectgarbage("count") < before + 100, "Lua memory is flat")
end)

check.test("a coroutine that is dropped while suspended", function()
  local a = moth.ones(SMALL)
  local t = peak(4 * SMALL, function()
    for _ = 1, 3000 do
      local co = coroutine.wrap(function()
        local x = a + a
        coroutine.yield(x)
        return x
      end)
      co()
    end
  end)
  check.that(t <= 30, t)
end)

check.test("a Lua table that grows and shrinks beside tensors is collected", function()
  local a = moth.ones(SMALL)
  local queue, first, last, most = {}, 1, 0, 0
  collectgarbage()
  local base = collectgarbage("count")
  for i = 1, 100000 do
    last = last + 1
    queue[last] = { i, i + 1 }
    if last - first > 2000 then
      queue[first] = nil
      first = first + 1
    end
    local _ = a + a
    most = math.max(most, collectgarbage("count") - base)
  end
  check.that(most < 20000, most .. " KB")
end)

check.test("a loop of 100 MB tensors stays within 4 of them", function()
  local t = peak(4 * LARGE, function()
    for _ = 1, 100 do local _ = moth.empty(LARGE) end
  end)
  check.that(t <= 4, t)
end)

check.test("after large tensors the bounds of small ones come back", function()
  local function loop(n)
    for _ = 1, n do local _ = moth.empty(SMALL) end
  end
  loop(60000)
  check.that(peak(4 * SMALL, function() loop(2000) end) <= 10)
end)

check.test("free gives the memory back at once, and says so afterwards", function()
  local x = moth.ones(SMALL)
  local live = moth.memory_stats().live
  x:free()
  check.that(live - moth.memory_stats().live >= 4 * SMALL)
  check.raises("was freed", function() return x + 1 end)
  check.raises("tensor that was freed", function() return moth.ones(SMALL) + x end)
  check.raises("was freed", function() return x:size() end)
  check.raises("was freed", function() return x.shape end)
  check.raises("was freed", function() return #x end)
  x:free()
  local y
  do
    local z <close> = moth.ones(SMALL)
    y = z
  end
  check.raises("was freed", function() return y:numel() end)
end)

check.test("a view keeps the storage alive", function()
  local v = moth.ones(SMALL):view(100, 100)[2]
  for _ = 1, 1000 do local _ = moth.zeros(SMALL) end
  check.equal(v:tolist()[100], 1)
end)

check.test("tensors can be used in finalizers, and resurrected", function()
  local kept
  do
    local object = setmetatable({ x = moth.ones(3) }, {
      __gc = function(o)
        kept = o.x
        local _ = o.x + 1
      end,
    })
    object = nil
  end
  collectgarbage()
  collectgarbage()
  check.equal(kept, { 1, 1, 1 })
end)

check.test("a finalizer that frees tensors cannot hurt a running operation", function()
  local victims = {}
  local function trap()
    setmetatable({}, {
      __gc = function()
        for _, v in ipairs(victims) do v:free() end
      end,
    })
  end
  for i = 1, 3000 do
    victims = { moth.ones(64), moth.ones(64) }
    trap()
    local list = victims
    for _ = 1, 5 do
      pcall(function() return list[1] + list[2] end)
      pcall(function() return list[1]:tolist() end)
      pcall(function() return list[1].shape end)
      pcall(function() return moth.tensor({ list[1], 1 }) end)
    end
  end
end)

check.test("the limit: garbage is collected before an error, which is clean", function()
  local live = moth.memory_stats().live
  collectgarbage "stop" -- pacing respects it, running out of memory does not
  moth.set_memory_limit(live + 20 * 4 * SMALL)
  local ok, message = pcall(function()
    for _ = 1, 500 do local _ = moth.zeros(SMALL) end
  end)
  collectgarbage "restart"
  check.that(ok, message)
  local kept = {}
  local text = check.raises("out of memory", function()
    for i = 1, 100 do kept[i] = moth.zeros(SMALL) end
  end)
  check.that(text:find "limit" and text:find "40000 bytes", text)
  check.that(#kept >= 15 and #kept <= 20, #kept)
  kept = nil
  collectgarbage()
  check.equal(moth.zeros(SMALL):numel(), SMALL)
  moth.set_memory_limit(nil)
end)

check.test("moth.gc reports and sets", function()
  local r = moth.gc()
  check.equal(r.mode, "generational")
  check.equal(r.handles, "allocator")
  check.that(r.minor > 0 and r.alive > 0 and r.longest_minor > 0)
  check.equal(moth.gc({ young = 1 << 20 }).young, 1 << 20)
  moth.gc { young = 256 << 10 }
  check.raises("young", moth.gc, { young = -1 })
  check.raises("mode", moth.gc, { mode = "fast" })
  check.equal(moth.gc({ mode = "incremental" }).mode, "incremental")
  local t = peak(4 * SMALL, function()
    for _ = 1, 10000 do local _ = moth.empty(SMALL) end
  end)
  check.that(4 * SMALL * t <= 300e6, t) -- looser: nothing is certain before a full collection
  check.equal(moth.gc({ mode = "generational" }).mode, "generational")
end)

-- Last: there is no way back.
check.test("handles with finalizers keep the bounds", function()
  check.equal(moth.gc({ handles = "finalizer" }).handles, "finalizer")
  local a, b = moth.ones(SMALL), moth.ones(SMALL)
  local t = peak(4 * SMALL, function() for _ = 1, 5000 do local _ = a + b end end)
  check.that(t <= 20, t)
  local x = moth.ones(2)
  x:free()
  check.raises("was freed", function() return x + 1 end)
end)

check.done()
