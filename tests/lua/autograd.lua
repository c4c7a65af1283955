-- Gradients from Lua: backward, grad, modes, hooks.

local check = require "check"
local moth = require "moth"
local autograd = moth.autograd

local function leaf(t) return moth.tensor(t, { requires_grad = true, dtype = "float64" }) end

check.test("backward adds to leaves", function()
  local x = leaf { 1, 2, 3 }
  local y = (x * x):sum()
  y:backward()
  check.equal(x.grad, { 2, 4, 6 });
  (x * 3):sum():backward()
  check.equal(x.grad, { 5, 7, 9 }, "added")
  x.grad = nil;
  (x * x):backward(moth.tensor({ 1, 0, 2 }, { dtype = "float64" }))
  check.equal(x.grad, { 2, 0, 12 })
  x.grad = nil;
  (x * x):backward { gradient = moth.tensor({ 1, 1, 1 }, { dtype = "float64" }) }
  check.equal(x.grad, { 2, 4, 6 })
end)

check.test("what backward refuses", function()
  local x = leaf { 1, 2 }
  check.raises("backward needs a gradient for a tensor with more than one element", function()
    (x * 2):backward()
  end)
  check.raises("does not require a gradient", function() moth.ones(1):backward() end)
  local y = (x * x):sum()
  y:backward()
  check.raises("retain_graph=true", function() y:backward() end)
  local z = (x * x):sum()
  z:backward { retain_graph = true }
  z:backward()
  check.raises("no argument 'retain'", function() y:backward { retain = true } end)
  check.raises("gradient: expected shape", function() (x * 2):backward(moth.ones(3)) end)
  check.raises("bad argument 'gradient' to backward", function() (x * 2):backward "x" end)
  check.raises("changed in place", function()
    local a = x * 1
    local b = (a * a):sum()
    a:add_(1)
    b:backward()
  end)
  check.raises("leaf that requires a gradient cannot be written", function() x:add_(1) end)
end)

check.test("grad gives gradients without touching leaves", function()
  local x, y = leaf { 1, 2 }, leaf { 3, 4 }
  local z = (x * x * y):sum()
  local gx, gy = table.unpack(autograd.grad(z, { x, y }, { retain_graph = true }))
  check.equal(gx, { 6, 16 })
  check.equal(gy, { 1, 4 })
  check.equal(autograd.grad(z, x, { retain_graph = true }), { 6, 16 }, "one input, one gradient")
  check.equal(x.grad, nil)
  local both = autograd.grad({ x * 2, y }, { x, y }, {
    grad_outputs = { moth.ones_like(x), y:detach() },
  })
  check.equal(both, { { 2, 2 }, { 3, 4 } })
  check.raises("input 2 was not used", autograd.grad, (x * 2):sum(), { x, y })
  check.equal(autograd.grad((x * 2):sum(), { x, y }, { allow_unused = true })[2], false)
  check.equal(autograd.grad((x * 2):sum(), y, { allow_unused = true }), nil)
  check.raises("bad argument 'inputs' to grad", autograd.grad, z, 3)
  check.raises("expected tensor or list of tensors, got 3", autograd.grad, z, { x, 3 })
end)

check.test("gradients of gradients", function()
  local x = leaf { 2, 3 }
  local g = autograd.grad((x * x * x):sum(), x, { create_graph = true })
  check.equal(g, { 12, 27 })
  check.that(g.requires_grad)
  check.equal(autograd.grad(g:sum(), x), { 12, 18 })
  local y = leaf { 2 };
  (y * y * y):sum():backward { create_graph = true }
  check.that(y.grad.requires_grad)
  y.grad:sum():backward()
end)

check.test("backward from several tensors", function()
  local x = leaf { 1, 2 }
  autograd.backward { (x * 2):sum(), (x * x):sum() }
  check.equal(x.grad, { 4, 6 })
  x.grad = nil
  autograd.backward({ x * 2, (x * x):sum() }, { moth.ones_like(x) })
  check.equal(x.grad, { 4, 6 })
end)

check.test("no_grad as a call and as a variable, restored after errors", function()
  local x = leaf { 1 }
  local a, b = moth.no_grad(function(u, v)
    check.that(not moth.is_grad_enabled())
    check.that(not (u * 2).requires_grad)
    check.equal(moth.enable_grad(function() return (u * 2).requires_grad end), true)
    return v, v
  end, x, 5)
  check.equal({ a, b }, { 5, 5 })
  check.that(moth.is_grad_enabled())
  do
    local _ <close> = moth.no_grad()
    check.that(not (x * 2).requires_grad)
    do
      local _ <close> = moth.set_grad_enabled(true)
      check.that((x * 2).requires_grad)
    end
    check.that(not moth.is_grad_enabled())
  end
  check.that(moth.is_grad_enabled())
  check.raises("inside", moth.no_grad, function() error "inside" end)
  check.that(moth.is_grad_enabled())
  pcall(function()
    local _ <close> = moth.no_grad()
    return x + "x"
  end)
  check.that(moth.is_grad_enabled())
  local co = coroutine.wrap(function() moth.no_grad(coroutine.yield) end)
  co()
  check.that(not moth.is_grad_enabled(), "as long as the call is suspended")
  co()
  check.that(moth.is_grad_enabled())
  moth.set_grad_enabled(false)
  check.that(not moth.is_grad_enabled())
  moth.set_grad_enabled(true)
end)

check.test("detach, requires_grad_ and leaves", function()
  local x = leaf { 1, 2 }
  local y = x * 2
  check.that(not y:detach().requires_grad)
  check.that(y:detach():is_set_to(y), "shares the storage")
  check.that(not y.data.requires_grad)
  check.raises("only leaves can stop", function() y:requires_grad_(false) end)
  y:detach_()
  check.that(y.is_leaf and not y.requires_grad)
  check.raises("it is a view", function() x[1]:detach_() end)
  local z = moth.ones(2)
  check.that(rawequal(z:requires_grad_(), z) and z.requires_grad)
  check.that(not z:requires_grad_(false).requires_grad)
end)

check.test("hooks see and replace gradients", function()
  local x = leaf { 1, 2 }
  local seen
  local handle = x:register_hook(function(g) seen = g:tolist() end);
  (x * 3):sum():backward()
  check.equal(seen, { 3, 3 })
  x.grad = nil
  handle:remove()
  handle:remove()
  x:register_hook(function(g) return g * 10 end)
  x:register_hook(function(g) return g + 1 end)
  seen = nil;
  (x * 3):sum():backward()
  check.equal(x.grad, { 31, 31 })
  check.equal(seen, nil)
  local y = leaf { 1, 2 }
  local h = y * 2
  h:register_hook(function(g) return g * 5 end);
  (h * h):sum():backward()
  check.equal(y.grad, { 40, 80 })
  check.raises("does not require a gradient", function() moth.ones(1):register_hook(print) end)
  check.raises("expected a function", function() x:register_hook(3) end)
end)

check.test("an error in a hook passes through and leaves everything sane", function()
  local x = leaf { 1, 2 }
  local h = x * 2
  local object = { "not a string" }
  local handle = h:register_hook(function() error(object) end)
  local y = (h * h):sum()
  local ok, e = pcall(y.backward, y, nil, true)
  check.that(not ok and e == object, "the very object")
  check.that(moth.is_grad_enabled())
  handle:remove()
  x.grad = nil
  y:backward()
  check.equal(x.grad, { 8, 16 })
  local z = x * 1
  z:register_hook(function() return 5 end)
  check.raises("hook must return a tensor or nothing, got number", function()
    z:sum():backward()
  end)
  local w = x * 1
  w:register_hook(function() return moth.ones(7) end)
  check.raises("same shape and dtype", function() w:sum():backward() end)
  local v = x * 1
  v:register_hook(function(g) return g:view(3) end)
  local text = check.raises("view", function() v:sum():backward() end)
  check.that(text:find "autograd.lua:%d+:", text)
end)

check.test("hooks may run operations, backward, coroutines and free tensors", function()
  local x, u = leaf { 1, 2 }, leaf { 1, 1 }
  local h = x * 2
  local temporary = moth.ones(3)
  h:register_hook(function(g)
    moth.enable_grad(function() (u * u):sum():backward() end)
    temporary:free()
    h:free()
    local co = coroutine.wrap(function() return g * 2 end)
    return co()
  end)
  local y = (h * 3):sum()
  y:backward()
  check.equal(x.grad, { 12, 12 })
  check.equal(u.grad, { 2, 2 })
  check.raises("yield", function()
    local z = x * 2
    z:register_hook(function() coroutine.yield() end)
    z:sum():backward()
  end)
end)

check.test("retain_grad", function()
  local x = leaf { 1, 2 }
  local h = x * 2
  h:retain_grad();
  (h * h):sum():backward()
  check.equal(h.grad, { 4, 8 })
  check.equal(x.grad, { 8, 16 })
  x:retain_grad()
  check.raises("does not require", function() moth.ones(1):retain_grad() end)
  local t = x * 2
  t:retain_grad()
  t:mul_(3);
  (t * t):sum():backward()
  check.equal(t.grad, { 12, 24 }, "of the value after the write")
  t = x * 2
  t:retain_grad()
  t:mul_(2)
  local y = (t * 1):sum()
  t = nil
  collectgarbage()
  y:backward() -- to where t was
end)

check.test("hooks go with their graph", function()
  local x = leaf { 1, 2 }
  collectgarbage()
  local weak = setmetatable({}, { __mode = "v" })
  do
    local f = function(g) return g * 2 end
    weak[1] = f
    local h = x * 2
    h:register_hook(f)
  end
  for _ = 1, 3000 do local _ = moth.ones(16) end
  collectgarbage()
  for _ = 1, 3000 do local _ = moth.ones(16) end
  collectgarbage()
  check.equal(weak[1], nil)
end)

check.done()
