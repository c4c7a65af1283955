-- Messages and the places they name; errors never leave anything half done.

local check = require "check"
local moth = require "moth"

local FILE = "errors%.lua:"
local function here() return debug.getinfo(2, "l").currentline end

check.test("the line of the script, for functions, methods, operators and fields", function()
  local a, b = moth.ones(2), moth.ones(3)
  local cases = {
    function() return here(), moth.add(a, b) end,
    function() return here(), a:add(b) end,
    function() return here(), a + b end,
    function() return here(), a - "x" end,
    function() return here(), a[9] end,
    function() return here(), a:view(7) end,
    function() return here(), a:size(5) end,
    function() return here(), moth.zeros(-1) end,
    function() return here(), moth.tensor { 1, { 2 } } end,
    function() return here(), a:backward() end,
    function() return here(), -a.no.field end,
  }
  local first = debug.getinfo(cases[1], "S").linedefined
  for i, f in ipairs(cases) do
    check.raises(FILE .. first + i - 1 .. ": ", f)
  end
end)

check.test("also when the call is the last thing in pcall, a coroutine or a tail call", function()
  local a = moth.ones(2)
  check.raises(":%d+: bad argument 'other' to add", moth.add, a, {})
  local co = coroutine.create(function() return a + {} end)
  local line = here() - 1
  local ok, message = coroutine.resume(co)
  check.that(not ok and message:find(FILE .. line), message)
  check.raises("bad argument", coroutine.wrap(moth.add), a, {})
end)

check.test("shapes, dtypes and names are in the message", function()
  check.raises("add: .*%(2%).*%(3%)", function() return moth.ones(2) + moth.ones(3) end)
  check.raises("view: shape %(3%) does not fit 4 elements", function()
    return moth.ones(2, 2):view(3)
  end)
  check.raises("add: .*int64", function()
    return moth.ones(2, { dtype = "int64" }):add_(1.5)
  end)
  check.raises("add: a leaf that requires a gradient cannot be written in place", function()
    moth.ones(2, { requires_grad = true }):add_(1)
  end)
end)

check.test("an error inside the standard library points at the user's line", function()
  package.preload["moth_test_helper"] = load(
    "local x = ...\nreturn function(t)\n  return t + {}\nend", "=moth/helper.lua")
  local helper = require "moth_test_helper"
  local line = here() + 2
  check.raises(FILE .. line .. ": bad argument 'other' to add", function()
    return helper(moth.ones(1)) .. 1
  end)
end)

check.test("a million errors leave memory flat", function()
  local x = moth.ones(2)
  collectgarbage()
  local lua, live = collectgarbage("count"), moth.memory_stats().live
  for _ = 1, 200000 do
    pcall(moth.add, x, "x")
    pcall(moth.view, x, 3)
  end
  collectgarbage()
  check.that(collectgarbage("count") - lua < 200, "Lua memory")
  check.equal(moth.memory_stats().live, live)
end)

check.test("an error leaves tensors, graph and modes as they were", function()
  local x = moth.ones(2, { requires_grad = true })
  local y = x * 2
  local version = y._version
  pcall(y.add_, y, moth.ones(3))
  pcall(y.add_, y, "x")
  check.equal(y._version, version)
  y:sum():backward()
  check.equal(x.grad, { 2, 2 })
  check.that(moth.is_grad_enabled())
end)

check.test("errors are strings, errors of scripts pass unchanged", function()
  local _, message = pcall(moth.add, 1)
  check.equal(type(message), "string")
  local object = setmetatable({}, { __tostring = function() return "mine" end })
  local ok, e = pcall(moth.no_grad, function() error(object) end)
  check.that(not ok and rawequal(e, object))
end)

check.done()
