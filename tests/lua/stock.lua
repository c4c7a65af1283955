-- require "moth" in a stock Lua interpreter: build/moth.so, beside the program that runs this.

local check = require "check"

local build = (arg[-1] or ""):match "^(.*)/[^/]*$" or "."
local module = io.open(build .. "/moth.so", "rb")
local lua
for _, name in ipairs { "lua5.4", "lua54", "lua" } do
  local pipe = io.popen("command -v " .. name .. " 2>/dev/null && " .. name .. " -v 2>/dev/null")
  if pipe:read("a"):find "Lua 5%.4" then lua = lua or name end
  pipe:close()
end

local function run(script)
  local name = os.tmpname()
  local file <close> = assert(io.open(name, "w"))
  file:write(("package.cpath = %q .. package.cpath\nlocal moth = require 'moth'\n"):format(
    build .. "/?.so;"), script)
  file:close()
  local pipe = io.popen(lua .. " " .. name .. " 2>&1; echo status $?")
  local text = pipe:read "a"
  pipe:close()
  os.remove(name)
  return text
end

if not module or not lua then
  print("stock.lua: skipped, needs " .. (lua and build .. "/moth.so" or "a stock Lua 5.4"))
  return
end
module:close()

check.test("the interpreter's generational mode is noticed, temporaries are bounded", function()
  local text = run [[
    assert(moth.gc().mode == "generational" and moth.gc().handles == "allocator")
    local a = moth.ones(10000)
    moth.reset_peak_memory_stats()
    for i = 1, 5000 do local _ = a + a end
    local t = moth.memory_stats().peak / 40000
    assert(t <= 12, t)
  ]]
  check.equal(text, "status 0\n")
end)

check.test("the program ends cleanly with tensors, graphs and finalizers alive", function()
  local text = run [[
    x = moth.ones(3, { requires_grad = true })
    y = (x * x):sum()
    y:backward(nil, true)
    co = coroutine.wrap(function() local h = x * y; coroutine.yield() end)
    co()
    o = setmetatable({}, { __gc = function() print(y:item()) end })
    assert(moth.nn and require "moth.optim")
  ]]
  check.equal(text, "3.0\nstatus 0\n")
end)

check.test("an incremental state is taken for what it is", function()
  local text = run [[
    collectgarbage "incremental"
    package.loaded.moth = nil
    for i = 1, 30 do
      local t = {}
      for k = 1, i * 1000 do t[k] = {} end
    end
    moth.gc { mode = "incremental" }
    local a = moth.ones(10000)
    for i = 1, 20000 do local _ = a + a end
    assert(moth.memory_stats().peak < 300e6)
  ]]
  check.equal(text, "status 0\n")
end)

check.done()
