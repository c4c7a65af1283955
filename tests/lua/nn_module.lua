-- Modules: registration, names, state dicts, hooks, modes, text and errors.

local check = require "check"
local moth = require "moth"
local nn = require "moth.nn"

local function names_of(iterator)
  local names = {}
  for name in iterator do names[#names + 1] = name end
  return names
end

local Net = nn.class("Net")
function Net:init(hidden)
  self.fc1 = nn.Linear(4, hidden)
  self.norm = nn.BatchNorm1d(hidden)
  self.body = nn.Sequential(nn.ReLU(), nn.Linear(hidden, 2, { bias = false }))
  self.scale = nn.Parameter(moth.ones(1))
  self.steps = 0
end
function Net:forward(x) return self.body(self.norm(self.fc1(x))) * self.scale end

check.test("parameters, buffers and modules in the order of assignment", function()
  local net = Net(3)
  check.equal(names_of(net:named_parameters()),
    { "scale", "fc1.weight", "fc1.bias", "norm.weight", "norm.bias", "body.1.weight" })
  check.equal(#net:parameters(), 6)
  check.equal(names_of(net:named_buffers()),
    { "norm.running_mean", "norm.running_var", "norm.num_batches_tracked" })
  check.equal(names_of(net:named_modules()), { "", "fc1", "norm", "body", "body.0", "body.1" })
  check.equal(names_of(net:named_children()), { "fc1", "norm", "body" })
  check.equal(#net:modules(), 6)
  check.equal(names_of(net:named_parameters("p")), { "p.scale", "p.fc1.weight", "p.fc1.bias",
    "p.norm.weight", "p.norm.bias", "p.body.1.weight" })
end)

check.test("a shared module or parameter is listed once, and saved under both names", function()
  local net = nn.Module()
  net.a = nn.Linear(2, 2)
  net.b = net.a
  check.equal(#net:parameters(), 2)
  check.equal(names_of(pairs(net:state_dict())), { "a.weight", "a.bias", "b.weight", "b.bias" })
  net:double()
  check.that(rawequal(net.a.weight, net.b.weight), "still one tensor after a conversion")
end)

check.test("fields: replaced parameters, plain tensors, removed children", function()
  local net = nn.Module()
  net.w = nn.Parameter(moth.zeros(2))
  net.plain = moth.zeros(3)
  net.later = false
  net.w = nn.Parameter(moth.ones(5))
  net.later = nn.Linear(1, 1)
  check.equal(net:parameters()[1]:size(1), 5)
  check.equal(names_of(net:named_parameters()), { "w", "later.weight", "later.bias" })
  net.later = nil
  check.equal(#net:parameters(), 1)
end)

check.test("classes inherit, and declared arguments go by position or name", function()
  local Wide = nn.class("Wide", Net)
  function Wide:init(n)
    Net.init(self, n)
    self.more = nn.Linear(1, 1)
  end
  local net = Wide(3)
  check.equal(#net:parameters(), 8)
  check.equal(net(moth.zeros(2, 4)):size(), { 2, 2 })
  local Mine = nn.class("Mine", nn.Linear)
  function Mine:init(n) nn.Linear.init(self, n, n, { bias = false }) end
  check.equal(#Mine(3):parameters(), 1)
  check.equal(nn.Linear { in_features = 2, out_features = 3 }.weight:size(), { 3, 2 })
  check.equal(nn.Linear(2, { out_features = 3 }).weight:size(), { 3, 2 })
  check.equal(nn.Linear(2, 3, false).bias, nil)
  check.equal(nn.Linear(2, 3, { dtype = "float64" }).weight.dtype, "float64")
  check.raises("argument 'out_features' is missing", function() return nn.Linear(2) end)
  check.raises("unknown option 'biass'", function() return nn.Linear(2, 3, { biass = false }) end)
  check.raises("given twice", function() return nn.Linear(2, 3, { out_features = 3 }) end)
  check.raises("takes 5 arguments", function() return nn.Linear(1, 2, true, nil, nil, 9) end)
  check.raises("nn_module.lua:%d+: Linear", function() local _ = nn.Linear() end)
  check.raises("no forward is defined", function() return nn.class("Empty")()(1) end)
  check.raises("not a module class", function() return nn.class("X", {}) end)
end)

check.test("state dict: keys of PyTorch, order, round trip, shared elements", function()
  local net = Net(3)
  local dict = net:state_dict()
  check.equal(names_of(pairs(dict)), { "scale", "fc1.weight", "fc1.bias", "norm.weight",
    "norm.bias", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked",
    "body.1.weight" })
  check.equal(#dict, 9)
  check.equal(dict["fc1.weight"].requires_grad, false)
  local other = Net(3)
  other:load_state_dict(dict)
  for name, tensor in pairs(other:state_dict()) do
    check.that(tensor:equal(dict[name]), name)
  end
  moth.no_grad(function() net.fc1.bias:fill_(7) end)
  check.equal(dict["fc1.bias"]:tolist(), { 7, 7, 7 })
  check.that(not other.fc1.bias:eq(7):any():item(), "loading copies")
end)

check.test("load_state_dict says everything that does not fit, and changes nothing", function()
  local net, before = Net(3), nil
  before = net.scale:item()
  local dict = Net(3):state_dict()
  local bad = { ["fc1.weight"] = moth.zeros(2, 2), ["norm.bias"] = 3, extra = moth.zeros(1),
    scale = moth.zeros(1) }
  local ok, message = pcall(net.load_state_dict, net, bad)
  check.equal(ok, false)
  for _, part in ipairs { "missing: fc1.bias, norm.weight", "unexpected: extra",
    "fc1.weight: the module has (3, 4), the state dict (2, 2)", "norm.bias: expected a tensor" } do
    check.that(message:find(part, 1, true), part .. " in " .. message)
  end
  check.equal(net.scale:item(), before)
  dict.extra, dict["fc1.bias"] = moth.zeros(1), nil
  check.raises("unexpected: extra", function() net:load_state_dict(dict) end)
  local result = net:load_state_dict(dict, { strict = false })
  check.equal(result, { missing_keys = { "fc1.bias" }, unexpected_keys = { "extra" } })
  check.raises("the module has %(1%)", function()
    net:load_state_dict({ scale = moth.zeros(2) }, { strict = false })
  end)
end)

check.test("buffers that are not persistent stay out of the state", function()
  local net = nn.Module()
  net:register_buffer("kept", moth.zeros(1))
  net:register_buffer("dropped", moth.zeros(1), { persistent = false })
  check.equal(names_of(pairs(net:state_dict())), { "kept" })
  check.equal(#net:buffers(), 2)
  check.raises("without dots", function() net:register_buffer("a.b", moth.zeros(1)) end)
  check.raises("already has a field", function() net:register_buffer("forward", moth.zeros(1)) end)
  check.raises("nn.Parameter first", function() net:register_parameter("p", moth.zeros(1)) end)
end)

check.test("train, eval, apply, zero_grad, requires_grad_, to", function()
  local net, seen = Net(3), 0
  check.that(net:eval() == net and not net.body[1].training and not net.training, "eval")
  check.that(net:train().norm.training, "train")
  check.that(net:apply(function() seen = seen + 1 end) == net and seen == 6, "apply")
  net(moth.randn(5, 4)):sum():backward()
  check.that(net.fc1.weight.grad ~= nil, "a gradient")
  net:zero_grad { set_to_none = false }
  check.equal(net.fc1.bias.grad:tolist(), { 0, 0, 0 })
  net:zero_grad()
  check.equal(net.fc1.bias.grad, nil)
  net:requires_grad_(false)
  check.equal(net.scale.requires_grad, false)
  check.equal(#net:parameters(), 6)
  net:to("float64")
  check.equal(net.fc1.weight.dtype, "float64")
  check.equal(net.norm.running_mean.dtype, "float64")
  check.equal(net.norm.num_batches_tracked.dtype, "int64")
  check.equal(net.scale.requires_grad, false)
  check.equal(net:float().fc1.weight.dtype, "float32")
end)

check.test("containers: positions, names, replacing, state", function()
  local seq = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
  check.equal(#seq, 3)
  check.equal(names_of(seq:named_parameters()), { "0.weight", "0.bias", "2.weight", "2.bias" })
  check.that(seq[-1] == seq[3] and seq["1"] == seq[2], "from the end, by name")
  seq[3] = nn.Linear(3, 5)
  check.equal(seq(moth.zeros(4, 2)):size(), { 4, 5 })
  seq:append(nn.Tanh()):insert(1, nn.Identity())
  check.equal(#seq, 5)
  check.that(getmetatable(seq[1]).__name == "Identity" and #seq:children() == 5, "inserted")
  local named = nn.Sequential { { "fc", nn.Linear(2, 2) }, { "act", nn.ReLU() } }
  check.equal(names_of(named:named_children()), { "fc", "act" })
  named.fc = nn.Linear(2, 7)
  check.equal(named[1].weight:size(), { 7, 2 })
  check.equal(#named, 2)
  local list = nn.ModuleList { nn.Linear(1, 1), nn.Linear(1, 2) }
  local n = 0
  for _, layer in ipairs(list) do n = n + layer.weight:size(1) end
  check.equal(n, 3)
  check.raises("expected a module", function() list:append(3) end)
  local dict = nn.ModuleDict { b = nn.ReLU(), a = nn.Linear(1, 1) }
  check.equal(dict:keys(), { "a", "b" })
  check.that(dict:contains("a") and not dict:contains("c"), "contains")
  local params = nn.ParameterList { moth.zeros(2), moth.zeros(3) }
  check.equal(names_of(params:named_parameters()), { "0", "1" })
  check.equal(nn.Sequential()(5), 5)
end)

check.test("tostring", function()
  local text = tostring(Net(3))
  check.equal(text, table.concat({
    "Net(",
    "  (fc1): Linear(in_features=4, out_features=3)",
    "  (norm): BatchNorm1d(num_features=3)",
    "  (body): Sequential(",
    "    (0): ReLU()",
    "    (1): Linear(in_features=3, out_features=2, bias=false)",
    "  )",
    ")" }, "\n"))
  check.equal(tostring(nn.Conv2d(1, 2, { 3, 5 }, { padding = "same" })),
    'Conv2d(in_channels=1, out_channels=2, kernel_size={3, 5}, padding="same")')
  check.equal(tostring(nn.Linear), "class Linear")
end)

check.test("forward hooks see and replace, and can be removed", function()
  local fc = nn.Linear(2, 2)
  local log = {}
  local pre = fc:register_forward_pre_hook(function(m, inputs)
    log[#log + 1] = "pre" .. #inputs
    check.that(m == fc, "the module")
    return { inputs[1] * 0 }
  end)
  local post = fc:register_forward_hook(function(_, inputs, output)
    log[#log + 1] = "post" .. #inputs
    return output + 1
  end)
  local y = fc(moth.randn(1, 2))
  check.that(y:allclose(fc.bias:detach() + 1), "both replaced")
  check.equal(log, { "pre1", "post1" })
  pre:remove()
  pre:remove()
  post:remove()
  check.equal(fc._hooks, false)
  fc(moth.randn(1, 2))
  check.equal(#log, 2)
  check.raises("a hook must be a function", function() fc:register_forward_hook(3) end)
end)

check.test("backward hooks: gradients of this use alone, which they can replace", function()
  local fc = nn.Linear(2, 1, { bias = false })
  local seen
  local handle = fc:register_full_backward_hook(function(m, grad_in, grad_out)
    seen = { m, grad_in[1]:tolist(), grad_out[1]:tolist() }
    return { grad_in[1] * 10 }
  end)
  local x = moth.ones(1, 2):requires_grad_()
  local y = fc(x) * 3 + x:sum() * 100
  y:sum():backward()
  local w = fc.weight:detach()
  check.that(seen[1] == fc, "the module")
  check.equal(seen[3], { { 3 } })
  check.that(moth.tensor(seen[2]):allclose(w * 3), "only through the module")
  check.that(x.grad:allclose(w * 30 + 100), "replaced")
  handle:remove()
  seen = nil
  fc(moth.ones(1, 2)):sum():backward()
  check.equal(seen, nil)
  local calls = 0
  fc:register_full_backward_hook(function(_, grad_in) calls = calls + 1 + #grad_in end)
  fc(moth.ones(1, 2)):sum():backward()
  check.equal(calls, 1)
end)

check.test("utils: clipping and vectors", function()
  local a, b = nn.Parameter(moth.zeros(2)), nn.Parameter(moth.zeros(1))
  local unused = nn.Parameter(moth.zeros(1))
  a.grad, b.grad = moth.tensor { 3.0, 0.0 }, moth.tensor { 4.0 }
  local total = nn.utils.clip_grad_norm_({ a, b, unused }, 1.0)
  check.that(math.abs(total:item() - 5) < 1e-6, "norm before")
  check.that(math.abs(a.grad[1]:item() - 0.6) < 1e-5, "scaled")
  nn.utils.clip_grad_norm_({ a, b }, 100)
  check.that(math.abs(b.grad:item() - 0.8) < 1e-5, "left alone")
  nn.utils.clip_grad_value_({ a, b }, 0.5)
  check.equal(b.grad:tolist(), { 0.5 })
  b.grad = moth.tensor { math.huge }
  check.raises("norm of the gradients is inf", function()
    nn.utils.clip_grad_norm_({ b }, 1, { error_if_nonfinite = true })
  end)
  nn.utils.vector_to_parameters(moth.tensor { 1.0, 2.0, 3.0 }, { a, b })
  check.equal(nn.utils.parameters_to_vector({ a, b }):tolist(), { 1, 2, 3 })
  check.raises("vector of 3 elements", function()
    nn.utils.vector_to_parameters(moth.zeros(2), { a, b })
  end)
end)

check.done()
