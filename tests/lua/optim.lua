-- Optimisers: values worked out by hand, groups, skipped parameters, state, errors.

local check = require "check"
local moth = require "moth"
local nn = require "moth.nn"
local optim = require "moth.optim"

local function parameter(value)
  return nn.Parameter(moth.tensor({ value }, { dtype = "float64" }))
end

local function near(got, want, what)
  check.that(math.abs(got - want) < 1e-9, ("%s: expected %.12g, got %.12g"):format(what, want, got))
end

-- Steps with the given gradients (false: none) and checks the parameter after each.
local function run(make, grads, values, what)
  local p = parameter(1.0)
  local opt = make { p }
  for i, g in ipairs(grads) do
    p.grad = g and moth.tensor({ g }, { dtype = "float64" }) or nil
    opt:step()
    near(p:item(), values[i], what .. " step " .. i)
  end
  return opt, p
end

check.test("parameters without a gradient are left alone and get no state", function()
  local function adam(p) return optim.Adam(p, { lr = 0.1, weight_decay = 0.1 }) end
  local function adamw(p) return optim.AdamW(p, { lr = 0.1, weight_decay = 0.1 }) end
  local function sgd(p) return optim.SGD(p, { lr = 0.1, momentum = 0.9 }) end
  local opt, p = run(adam, { false, false }, { 1, 1 }, "Adam without gradient")
  check.equal(opt.state[p], nil)
  run(adam, { 0.0, 0.0 }, { 0.90000001, 0.800412248082 }, "Adam decays")
  run(adamw, { 0.0, false }, { 0.99, 0.99 }, "AdamW")
  run(sgd, { 1.0, 0.0, false }, { 0.9, 0.81, 0.81 }, "SGD")
end)

check.test("eps comes after the bias correction, decay on the old weight", function()
  run(function(p) return optim.AdamW(p, { lr = 0.1, weight_decay = 0.1 }) end, { 0.5, 0.5, 0.0 },
    { 0.890000002, 0.78110000398, 0.695988716003 }, "AdamW")
  run(function(p) return optim.Adam(p, { lr = 0.1 }) end, { 0.5, 0.5, 0.0 },
    { 0.900000002, 0.800000004, 0.722699716063 }, "Adam")
end)

check.test("SGD: weight decay, dampening, nesterov, maximize", function()
  run(function(p) return optim.SGD(p, { lr = 0.1, weight_decay = 0.5 }) end, { 1.0 }, { 0.85 },
    "decay")
  run(function(p) return optim.SGD(p, { lr = 0.1, momentum = 0.5, dampening = 0.5 }) end,
    { 1.0, 1.0 }, { 0.9, 0.8 }, "dampening")
  run(function(p) return optim.SGD(p, { lr = 0.1, momentum = 0.5, nesterov = true }) end,
    { 1.0, 1.0 }, { 0.85, 0.675 }, "nesterov")
  run(function(p) return optim.SGD(p, { lr = 0.1, maximize = true }) end, { 1.0 }, { 1.1 },
    "maximize")
end)

check.test("a parameter that joins late has its own count of steps", function()
  local function alone(grads)
    local p = parameter(1.0)
    local opt = optim.Adam({ p }, { lr = 0.1 })
    for _, g in ipairs(grads) do
      p.grad = moth.tensor({ g }, { dtype = "float64" })
      opt:step()
    end
    return p:item()
  end
  for _, make in ipairs { optim.Adam, optim.SGD } do
    local a, b = parameter(1.0), parameter(1.0)
    local opt = make({ a, b }, make == optim.SGD and { lr = 0.1, momentum = 0.9 } or { lr = 0.1 })
    a.grad = moth.tensor({ 0.5 }, { dtype = "float64" })
    opt:step()
    b.grad = moth.tensor({ 0.5 }, { dtype = "float64" })
    opt:step()
    opt:step()
    if make == optim.Adam then
      near(a:item(), alone { 0.5, 0.5, 0.5 }, "the first")
      near(b:item(), alone { 0.5, 0.5 }, "the late one")
    else
      near(a:item(), 1 - 0.05 * (1 + 1.9 + 2.71), "the first")
      near(b:item(), 1 - 0.05 * (1 + 1.9), "the late one")
    end
  end
end)

check.test("groups have options of their own, over the defaults", function()
  local a, b, c = parameter(1.0), parameter(1.0), parameter(1.0)
  local opt = optim.SGD({ { params = { a } }, { params = b, lr = 1.0 } }, { lr = 0.1 })
  opt:add_param_group { params = { c }, lr = 0.5, maximize = true }
  for _, p in ipairs { a, b, c } do p.grad = moth.ones(1, { dtype = "float64" }) end
  opt:step()
  near(a:item(), 0.9, "default")
  near(b:item(), 0.0, "own rate")
  near(c:item(), 1.5, "added")
  opt.param_groups[1].lr = 0.2
  opt:step()
  near(a:item(), 0.7, "changed later")
  check.raises("parameter 1 of the group is in the optimiser already", function()
    opt:add_param_group { params = { a } }
  end)
  check.that(tostring(opt):find("group 3: 1 parameters, lr=0.5", 1, true), tostring(opt))
end)

check.test("zero_grad forgets gradients, or fills them", function()
  local p = parameter(1.0)
  local opt = optim.SGD({ p }, { lr = 0.1 })
  p.grad = moth.ones(1, { dtype = "float64" })
  opt:zero_grad { set_to_none = false }
  check.equal(p.grad:tolist(), { 0 })
  opt:zero_grad()
  check.equal(p.grad, nil)
end)

check.test("a closure computes the loss, with gradients on, and step returns it", function()
  local p = parameter(3.0)
  local opt = optim.SGD({ p }, { lr = 0.1 })
  local loss = opt:step(function()
    opt:zero_grad()
    local l = (p * p):sum()
    l:backward()
    return l
  end)
  near(loss:item(), 9.0, "loss before the step")
  near(p:item(), 2.4, "after")
  check.that(moth.is_grad_enabled(), "gradients are on again")
end)

check.test("a step is no part of the graph and may follow every backward", function()
  local p = parameter(1.0)
  local opt = optim.Adam({ p }, { lr = 0.1, amsgrad = true })
  for _ = 1, 3 do
    local loss = (p * 2):sum()
    opt:zero_grad()
    loss:backward()
    opt:step()
  end
  check.that(p.is_leaf and p.requires_grad, "still a leaf")
end)

check.test("state: saved, loaded, and going on as without the stop", function()
  local function steps(opt, p, n)
    for i = 1, n do
      p.grad = moth.tensor({ 0.1 * i }, { dtype = "float64" })
      opt:step()
    end
  end
  for _, make in ipairs { optim.Adam, optim.AdamW, optim.SGD } do
    local options = make == optim.SGD and { lr = 0.1, momentum = 0.9 }
      or { lr = 0.1, amsgrad = true }
    local p = parameter(1.0)
    local opt = make({ p }, options)
    steps(opt, p, 3)
    local saved, q = opt:state_dict(), nn.Parameter(p:detach():clone())
    check.that(saved.state[0] and saved.param_groups[1].params[1] == 0, "numbered from 0")
    check.equal(saved.param_groups[1]._params, nil)
    local resumed = make({ q }, { lr = 7.0 })
    resumed:load_state_dict(saved)
    check.equal(resumed.param_groups[1].lr, 0.1)
    steps(opt, p, 2)
    steps(resumed, q, 2)
    near(q:item(), p:item(), "resumed")
    check.raises("1 parameter groups, the optimiser 2", function()
      make({ { params = p }, { params = q } }):load_state_dict(saved)
    end)
    check.raises("has 1 parameters, the optimiser's 2", function()
      make({ p, q }):load_state_dict(saved)
    end)
  end
end)

check.test("wrong arguments are named", function()
  local p = parameter(1.0)
  check.raises("list of parameters is empty", function() optim.SGD({}) end)
  check.raises("lr must be at least 0, got %-1", function() optim.SGD({ p }, { lr = -1 }) end)
  check.raises("unknown option 'learning_rate'", function()
    optim.Adam({ p }, { learning_rate = 1 })
  end)
  check.raises("unknown option 'beta'", function() optim.Adam { { params = { p }, beta = 1 } } end)
  check.raises("betas%[2%] must be", function() optim.Adam({ p }, { betas = { 0.9, 1.0 } }) end)
  check.raises("nesterov needs a momentum", function() optim.SGD({ p }, { nesterov = true }) end)
  check.raises("parameter 1 is not a leaf", function() optim.SGD({ p * 2 }) end)
  check.raises("parameter 2 is a number", function() optim.SGD({ p, 3 }) end)
  check.raises("optim.lua:%d+: SGD", function() optim.SGD(3) end)
end)

check.done()
