-- moth.autograd.Function: operations written in Lua; anomaly mode; closing with all of it alive.

local check = require "check"
local moth = require "moth"
local autograd = moth.autograd

local function leaf(t) return moth.tensor(t, { requires_grad = true, dtype = "float64" }) end

local Square = autograd.Function "Square"
function Square.forward(ctx, x)
  ctx:save_for_backward(x)
  check.that(not moth.is_grad_enabled())
  return x * x
end
function Square.backward(ctx, g)
  return 2 * ctx.saved_tensors[1] * g
end

check.test("a Function: forward, backward, twice", function()
  local x = leaf { 1, 2, 3 }
  local y = Square.apply(x)
  check.equal(y, { 1, 4, 9 })
  check.equal(y.grad_fn, "Square")
  check.that(not y.is_leaf)
  y:sum():backward()
  check.equal(x.grad, { 2, 4, 6 })
  local g = autograd.grad(Square(x):sum(), x, { create_graph = true })
  check.equal(autograd.grad((g * g):sum(), x), { 8, 16, 24 })
  check.that(not Square.apply(moth.ones(2)).requires_grad)
  check.that(not moth.no_grad(Square.apply, x).requires_grad)
  y = Square.apply(x):sum()
  y:backward { retain_graph = true }
  y:backward()
  check.raises("already used", function() y:backward() end)
end)

check.test("a Function saves a result: no cycle, and it is differentiable again", function()
  local Exp = autograd.Function "Exp"
  function Exp.forward(ctx, x)
    local y = x:exp()
    ctx:save_for_backward(y)
    return y
  end
  function Exp.backward(ctx, g) return g * ctx.saved_tensors[1] end
  local x = leaf { 0, 1 }
  local e = math.exp(1)
  local g = autograd.grad(Exp.apply(x):sum(), x, { create_graph = true })
  check.close(g, { 1, e })
  local gg = autograd.grad(g:sum(), x, { create_graph = true })
  check.close(gg, { 1, e })
  check.close(autograd.grad(gg:sum(), x), { 1, e })
  g, gg = nil, nil
  collectgarbage()
  collectgarbage()
  local alive, live = moth.gc().alive, moth.memory_stats().live
  for _ = 1, 200 do local _ = Exp.apply(x) end
  for _ = 1, 2 do
    for _ = 1, 3000 do local _ = moth.ones(16) end
    collectgarbage()
  end
  check.that(moth.gc().alive <= alive + 10, moth.gc().alive - alive)
  check.that(moth.memory_stats().live <= live + 2000, moth.memory_stats().live - live)
end)

check.test("a Function of several arguments and results", function()
  local Two = autograd.Function "Two"
  local needs
  function Two.forward(ctx, a, k, b)
    needs = ctx.needs_input_grad
    ctx.k = k
    ctx:save_for_backward(a, b)
    local top = (a + b):long()
    ctx:mark_non_differentiable(top)
    return a * b, top, a * k, "text"
  end
  function Two.backward(ctx, g1, gtop, g2)
    check.equal(gtop, nil)
    local a, b = table.unpack(ctx.saved_tensors)
    return g1 * b + g2 * ctx.k, nil, g1 * a
  end
  local a, b = leaf { 1, 2 }, leaf { 3, 4 }
  local p, top, q, text = Two.apply(a, 5, b)
  check.equal(needs, { true, false, true })
  check.equal(text, "text")
  check.that(not top.requires_grad)
  p:sum():backward { retain_graph = true } -- the gradient of q is zeros
  check.equal(a.grad, { 3, 4 })
  check.equal(b.grad, { 1, 2 })
  q:sum():backward()
  check.equal(a.grad, { 8, 9 })
end)

check.test("a Function that returns its argument, or changes it", function()
  local Same = autograd.Function "Same"
  function Same.forward(_, x) return x end
  function Same.backward(_, g) return g * 7 end
  local x = leaf { 1, 2 }
  local y = Same.apply(x)
  check.that(x.is_leaf and not y.is_leaf)
  y:sum():backward()
  check.equal(x.grad, { 7, 7 })
  local Twice = autograd.Function "Twice"
  function Twice.forward(ctx, t)
    ctx:mark_dirty(t)
    return t:mul_(2)
  end
  function Twice.backward(_, g) return g * 2 end
  x.grad = nil
  local h = x * 1
  local r = Twice.apply(h)
  check.that(r == h);
  (h * 3):sum():backward()
  check.equal(x.grad, { 6, 6 })
  check.raises("leaf", Twice.apply, x)
end)

check.test("what is wrong in a Function is said", function()
  local x = leaf { 1, 2 }
  local function class(backward)
    local C = autograd.Function "Broken"
    function C.forward(_, a, b) return a * 2 end
    C.backward = backward
    return C
  end
  check.raises("'Broken' has no backward", function() class(nil).apply(x):sum():backward() end)
  check.raises("has no forward", autograd.Function("Empty").apply, x)
  check.raises("gave 2 gradients for 1 arguments", function()
    class(function(_, g) return g, g end).apply(x):sum():backward()
  end)
  check.raises("argument 1 needs one", function()
    class(function() end).apply(x):sum():backward()
  end)
  check.raises("must return tensors or nil, got string", function()
    class(function() return "x" end).apply(x):sum():backward()
  end)
  check.raises("boom", function()
    class(function() error "boom" end).apply(x):sum():backward()
  end)
  check.raises("gave a gradient of shape %(3%)", function()
    class(function() return moth.ones(3) end).apply(x):sum():backward()
  end)
  check.raises("forward failed", function()
    local C = autograd.Function "F"
    function C.forward() error "forward failed" end
    C.apply(x)
  end)
  check.that(moth.is_grad_enabled())
  check.raises("changed in place", function()
    local h = x * 1
    local y = Square.apply(h)
    h:add_(1)
    y:sum():backward()
  end)
  x.grad = nil
  Square.apply(x):sum():backward()
  check.equal(x.grad, { 2, 4 }, "the next one works")
end)

check.test("ctx kept after its graph is harmless", function()
  local kept
  local Keep = autograd.Function "Keep"
  function Keep.forward(ctx, x)
    kept = ctx
    local y = x * 2
    ctx:save_for_backward(x, y)
    return y
  end
  function Keep.backward(_, g) return g * 2 end
  do
    local x = leaf { 1 }
    Keep.apply(x):sum():backward()
  end
  collectgarbage()
  collectgarbage()
  local _ = kept.saved_tensors
  for k in pairs(kept) do kept[k] = io.stdout end
  pcall(function() return kept.saved_tensors end)
  kept = nil
  collectgarbage()
end)

check.test("anomaly mode names operation and line", function()
  autograd.set_detect_anomaly(true)
  check.that(autograd.is_anomaly_enabled())
  local x = leaf { 0, 1 }
  local y = x:sqrt()
  local text = check.raises("sqrt", function() (y * 0):sum():backward() end)
  autograd.set_detect_anomaly(false)
  check.that(text:find "recorded at .*function%.lua:%d+$" and text:find "NaN", text)
end)

check.test("a state closed with live graphs, hooks and suspended coroutines", function()
  -- What is left here is closed with the interpreter; a sanitizer or valgrind watches.
  local x = leaf { 1, 2 }
  LEFT = { Square.apply(x * 2), x }
  LEFT[1]:register_hook(function(g) return g * LEFT[2] end)
  LEFT[3] = coroutine.create(function()
    local h = x * LEFT[1]
    coroutine.yield(h)
  end)
  coroutine.resume(LEFT[3])
  LEFT[4] = setmetatable({}, { __gc = function() local _ = LEFT[1] + LEFT[2] end })
end)

check.done()
