-- From Lua values to operations and back: arguments, results, fields, operators, constants.

local check = require "check"
local moth = require "moth"

check.test("positions, defaults and keywords are the same argument", function()
  local x, y = moth.tensor { 1, 2 }, moth.tensor { 10, 20 }
  check.equal(moth.add(x, y), { 11, 22 })
  check.equal(x:add(y, { alpha = 2 }), { 21, 42 })
  check.equal(moth.add { self = x, other = y }, { 11, 22 })
  check.equal(x:add { other = y, alpha = 3 }, { 31, 62 })
  check.equal(x:add { y, alpha = 3 }, { 31, 62 })
  check.equal(x:add(1), { 2, 3 })
  check.equal(moth.zeros(2, 3), moth.zeros { 2, 3 })
  check.equal(moth.zeros({ 2, 3 }, { dtype = "int64" }).dtype, "int64")
  check.equal(moth.zeros(2, 3, { dtype = moth.float64 }).dtype, "float64")
  check.equal(moth.zeros({}).ndim, 0)
  check.equal(moth.full({ 2 }, 7), { 7, 7 })
  check.equal(moth.arange(3), { 0, 1, 2 })
  check.equal(moth.arange(1, nil, nil), { 0 })
end)

check.test("numbers: floats with integer value are integers, others are named", function()
  check.equal(moth.zeros(3.0):size(1), 3)
  check.equal(moth.zeros(2, 2.0).shape, { 2, 2 })
  check.raises("bad argument 'size' to zeros: expected integer sizes, got 2.5", moth.zeros, 2.5)
  check.raises("bad argument 'size' to zeros: expected .* got string", moth.zeros, "3")
  check.raises("negative", moth.zeros, -1)
  check.equal(math.type(moth.zeros(2, 3):size(1)), "integer")
  check.equal(math.type(moth.tensor({ 1, 2 })[2]:item()), "integer")
  check.equal(moth.tensor((1 << 53) + 1):item(), (1 << 53) + 1)
end)

check.test("dims and positions count from 1", function()
  local x = moth.arange(6):view(2, 3)
  check.equal(x:transpose(1, 2).shape, { 3, 2 })
  check.equal(x:transpose(-1, 1).shape, { 3, 2 })
  check.equal(x:permute(2, 1).shape, { 3, 2 })
  check.equal(x:permute({ 2, 1 }).shape, { 3, 2 })
  check.raises("permute.*indices start at 1", function() return x:permute(1, 0) end)
  check.equal(x:select(1, 2), { 3, 4, 5 })
  check.equal(x:select(2, -1), { 2, 5 })
  check.equal(x:narrow(2, 2, 2), { { 1, 2 }, { 4, 5 } })
  check.equal(x:unsqueeze(1).shape, { 1, 2, 3 })
  check.equal(x:unsqueeze(3).shape, { 2, 3, 1 })
  check.equal(x:unsqueeze(-1).shape, { 2, 3, 1 })
  check.raises("bad argument 'dim0' to transpose: got 0, but indices start at 1", function()
    return x:transpose(0, 1)
  end)
  check.raises("indices start at 1", function() return x:select(1, 0) end)
  check.raises("transpose.*3.*", function() return x:transpose(3, 1) end)
end)

check.test("wrong arguments are named with what came", function()
  local x = moth.ones(2)
  local wrong = "bad argument 'other' to add: expected tensor or number, got "
  check.raises(wrong .. "string", moth.add, x, "a")
  check.raises(wrong .. "nil", moth.add, x, nil)
  check.raises("argument 'other' is missing", moth.add, x)
  check.raises("bad argument 'self' to view: expected tensor, got table", moth.view, {}, 2)
  check.raises("too many arguments to add: at most 2 without keyword %('alpha'", moth.add, x, x, 2)
  check.raises("too many arguments to relu: expected at most 1", moth.relu, x, 2)
  check.raises("add has no argument 'alfa' %(there are: self, other, alpha%)", moth.add, x, x,
    { alfa = 1 })
  check.raises("argument 'other' to add is given twice", moth.add, x, x, { other = x })
  check.raises("bad argument 'dtype' to zeros: 'float33' is not a dtype", moth.zeros, 2,
    { dtype = "float33" })
  check.raises("expected the name of a dtype, got 3", moth.zeros, 2, { dtype = 3 })
  check.raises("expected boolean, got 1", function() return x:to("float64"):clone():to("int64") + 1,
    moth._C.to(x, nil, 1) end)
  check.raises("expected a list of tensors, got number as element 2", moth._C.broadcast_tensors,
    { x, 3 })
end)

check.test("lists of tensors, spread or in a table; lists as results", function()
  local a, b = moth.ones(2, 1), moth.zeros(1, 3)
  for _, r in ipairs { moth.broadcast_tensors { a, b }, moth.broadcast_tensors(a, b) } do
    check.equal(#r, 2)
    check.equal(r[1].shape, { 2, 3 })
  end
end)

check.test("words of Lua as names have an underscore too", function()
  local x = moth.tensor { 1, 2 }
  check.equal(x:repeat_(2), { 1, 2, 1, 2 })
  check.equal(moth["repeat"](x, 2), { 1, 2, 1, 2 })
  check.equal(moth.arange(1, { ["end"] = 3 }), { 1, 2 })
end)

check.test("creation takes device and requires_grad", function()
  check.that(moth.ones(2, { requires_grad = true }).requires_grad)
  check.that(moth.ones_like(moth.ones(2), { requires_grad = true }).requires_grad)
  check.that(not moth.ones(2, { requires_grad = false }).requires_grad)
  check.equal(moth.ones(2, { device = "cpu" }).device, "cpu")
  check.raises("cuda.* not available", moth.ones, 2, { device = "cuda" })
  check.raises("there is no device 'gpu'", moth.ones, 2, { device = "gpu" })
  check.raises("only floating tensors", moth.ones, 2, { dtype = "int64", requires_grad = true })
  check.raises("no argument 'requires_grad'", moth.add, moth.ones(1), 1, { requires_grad = true })
end)

check.test("in-place forms return their tensor", function()
  local x = moth.ones(3)
  check.that(rawequal(x:add_(1), x))
  check.equal(x, { 2, 2, 2 })
  check.that(rawequal(x:mul_(2):add_(1), x))
  check.equal(x, { 5, 5, 5 })
  check.that(rawequal(x:fill_(0), x))
  check.that(moth._C.fill == nil or moth.fill == nil, "fill has only an in-place form")
  check.that(rawequal(x:contiguous(), x), "nothing to do: the tensor itself")
  check.that(rawequal(x:to "float32", x))
  check.that(not rawequal(x:to("float32", nil, true) and x:clone(), x))
  check.equal(moth.add_(x, 1), { 1, 1, 1 })
end)

check.test("operators", function()
  local a, b = moth.tensor { 4., 9. }, moth.tensor { 2., 3. }
  check.equal(a + b, { 6, 12 })
  check.equal(a - 1, { 3, 8 })
  check.equal(1 - a, { -3, -8 })
  check.equal(2 * a, { 8, 18 })
  check.equal(a / b, { 2, 3 })
  check.equal(36 / a, { 9, 4 })
  check.equal(a ^ 2, { 16, 81 })
  check.equal(2 ^ b, { 4, 8 })
  check.equal(-a, { -4, -9 })
  check.equal(#a, 2)
  check.equal(#moth.zeros(3, 2), 3)
  check.raises("without dims has no length", function() return #moth.tensor(1) end)
  check.raises("use x:lt%(y%)", function() return a < b end)
  check.raises("use x:le%(y%)", function() return a <= 2 end)
  check.raises("use x:lt%(y%)", function() return a > b end)
  check.raises("cannot be joined", function() return a .. "x" end)
  check.raises("attempt to call", function() return a() end)
  check.raises("expected tensor or number, got nil", function() return a + nil end)
  check.raises("to sub: expected tensor or number, got table", function() return {} - a end)
  check.that(a == a and a ~= b and a ~= moth.tensor { 4., 9. }, "== is identity")
  check.that(a.data ~= a)
  check.that(a ~= 1 and a ~= nil and a ~= "x")
end)

check.test("settings", function()
  check.equal(moth.get_default_dtype(), "float32")
  moth.set_default_dtype "float64"
  check.equal(moth.tensor({ 1.5 }).dtype, "float64")
  check.equal(moth.zeros(1).dtype, "float64")
  moth.set_default_dtype(moth.float32)
  check.raises("floating dtype", moth.set_default_dtype, "int64")
  local n = moth.get_num_threads()
  moth.set_num_threads(1)
  check.equal(moth.get_num_threads(), 1)
  moth.set_num_threads(n)
  check.raises("integer from 1", moth.set_num_threads, 0)
  moth.manual_seed(7)
  check.equal(moth.initial_seed(), 7)
  local state = moth.get_rng_state()
  moth.manual_seed(8)
  moth.set_rng_state(state)
  check.equal(moth.initial_seed(), 7)
  check.raises("get_rng_state", moth.set_rng_state, moth.zeros(2))
  local ok, why = moth.cuda.is_available()
  check.that(ok == false and type(why) == "string")
  check.equal(moth.promote_types("int64", "float16"), "float16")
  check.equal(moth.can_cast("float32", "int64"), false)
  check.equal(moth.finfo("float32").eps, 2 ^ -23)
  check.equal(moth.finfo("bfloat16").max, 3.3895313892515355e38)
  check.equal(moth.iinfo("int8"), { min = -128, max = 127, bits = 8 })
  check.equal(moth.iinfo("int64").max, math.maxinteger)
  check.equal(moth.iinfo("uint8").max, 255)
  check.equal({ moth.float, moth.long, moth.half }, { "float32", "int64", "float16" })
  check.that(moth.is_tensor(moth.ones(1)) and not moth.is_tensor({}) and not moth.is_tensor(nil))
  check.equal(moth.version, "0.1.0")
end)

check.test("modules of the library load when they are used", function()
  local early = package.loaded["moth.optim"]
  check.equal(early, nil)
  check.that(rawequal(moth.optim, require "moth.optim"))
  check.equal(moth.no_such_module, nil)
  check.raises("module 'moth.nothing' not found", require, "moth.nothing")
end)

check.test("debug.setmetatable and foreign objects cannot break a check", function()
  local x = moth.ones(2)
  local mt = debug.getmetatable(x)
  check.equal(getmetatable(x), false)
  local fake = debug.setmetatable({}, mt)
  check.raises("expected tensor or number, got table", function() return fake + 1 end)
  check.raises("expected tensor, got table", function() return fake.shape end)
  check.raises("expected tensor", function() return fake[1] end)
  check.raises("expected tensor", function() return #fake end)
  check.raises("expected tensor", function() fake[1] = 2 end)
  check.raises("expected tensor", tostring, fake)
  local file = debug.setmetatable(io.tmpfile(), mt)
  check.raises("expected tensor, got userdata", function() return file:numel() end)
  debug.setmetatable(file, getmetatable(io.stdout))
  for _, name in ipairs { "__close", "__gc", "__index", "__newindex", "__len", "__add", "__eq",
    "__tostring", "__unm", "__lt", "__concat" } do
    local f = mt[name]
    for _, v in ipairs { 1, "x", {}, print, io.stdout, coroutine.create(print) } do
      if f then pcall(f, v, v, v) end
      if f then pcall(f) end
    end
  end
  debug.setmetatable(x, nil)
  check.equal(moth.add(x, 1), { 2, 2 }, "still a tensor")
  debug.setmetatable(x, mt)
  debug.setmetatable(x, { __gc = function() end })
  x = nil
  collectgarbage()
end)

check.test("every function and method survives foreign arguments", function()
  local junk = { 1, -1, 2.5, "x", true, {}, { 1, 2 }, { x = 1 }, type, io.stdout, moth.ones(2),
    moth.zeros(0), moth.tensor { 1, 2 }, moth.ones(2, { requires_grad = true }) }
  local skip = { set_memory_limit = true, gc = true, set_num_threads = true, help = true,
    set_printoptions = true, set_default_dtype = true, empty = true, save = true }
  local function try(f)
    pcall(f)
    for _, a in ipairs(junk) do
      pcall(f, a)
      for _, b in ipairs(junk) do pcall(f, a, b) end
    end
  end
  for name, f in pairs(moth) do
    if type(f) == "function" and not skip[name] then try(f) end
  end
  for name, f in pairs(moth._C.methods) do
    if name ~= "free" then try(f) end
  end
  for _, f in pairs(moth.autograd) do try(f) end
  moth.set_grad_enabled(true)
  moth.autograd.set_detect_anomaly(false)
  check.equal(moth.ones(2) + 1, { 2, 2 })
end)

check.done()
