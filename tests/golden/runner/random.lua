--- Random operations and initialisers: statistics within five standard errors.
local moth = require "moth"
local values = require "runner.values"
local compare = require "runner.compare"
local operations = require "runner.operations"
local modules = require "runner.modules"

local M = {}

local function statistics(list)
  local n, sum, low, high = #list, 0, math.huge, -math.huge
  for _, v in ipairs(list) do
    sum = sum + v
    low, high = math.min(low, v), math.max(high, v)
  end
  local mean, squares = sum / n, 0
  for _, v in ipairs(list) do squares = squares + (v - mean) ^ 2 end
  local std = math.sqrt(squares / math.max(n - 1, 1))
  return { n = n, mean = mean, std = std, min = low, max = high }
end

local checks = {}

local function near(what, got, want, error)
  if math.abs(got - want) > 5 * error + 1e-12 then
    return ("%s is %.6g, should be %.6g"):format(what, got, want)
  end
end

function checks.mean(s, want) return near("mean", s.mean, want, s.std / math.sqrt(s.n)) end
function checks.std(s, want) return near("std", s.std, want, 2 * s.std / math.sqrt(s.n)) end
function checks.min(s, want)
  if s.min < want - 1e-6 * math.abs(want) then return ("%.9g below %.9g"):format(s.min, want) end
end
function checks.max(s, want)
  if s.max > want + 1e-6 * math.abs(want) then return ("%.9g above %.9g"):format(s.max, want) end
end
function checks.below(s, want)
  if s.max >= want then return ("%.9g is not below %.9g"):format(s.max, want) end
end
function checks.bound(s, want)
  if math.max(-s.min, s.max) > want * (1 + 1e-6) then
    return ("%.9g, %.9g outside %.9g"):format(s.min, s.max, want)
  end
  if s.n > 100 and s.max < 0.9 * want then return ("%.9g is far from %.9g"):format(s.max, want) end
end
function checks.integer(_, _, list)
  for _, v in ipairs(list) do
    if v ~= math.floor(v) then return v .. " is no integer" end
  end
end
function checks.values(_, want, list)
  for _, v in ipairs(list) do
    local found = false
    for _, w in ipairs(want) do found = found or math.abs(v - w) < 1e-6 end
    if not found then return v .. " is none of the values" end
  end
end
function checks.permutation(_, n, list)
  local sorted = table.move(list, 1, #list, 1, {})
  table.sort(sorted)
  for i = 1, n do
    if sorted[i] ~= i then return "no permutation" end
  end
end
function checks.median(s, want, list)
  local sorted = table.move(list, 1, #list, 1, {})
  table.sort(sorted)
  return near("median", sorted[s.n // 2], want, 2 / math.sqrt(s.n))
end
function checks.frequencies(s, want, list)
  local count = {}
  for _, v in ipairs(list) do count[v] = (count[v] or 0) + 1 end
  for i, p in ipairs(want) do
    local error = math.sqrt(p * (1 - p) / s.n)
    local problem = near("frequency of " .. i, (count[i] or 0) / s.n, p, error)
    if problem then return problem end
  end
end
function checks.kurtosis(s, want, list)
  local fourth = 0
  for _, v in ipairs(list) do fourth = fourth + (v - s.mean) ^ 4 end
  return near("kurtosis", fourth / s.n / s.std ^ 4, want, math.sqrt(24 / s.n))
end
function checks.dtype(_, want, _, t)
  if t.dtype ~= want then return t.dtype .. ", should be " .. want end
end
function checks.zeros_per_column(_, want, _, t)
  for _, v in ipairs(compare.elements(t:eq(0):sum(1))) do
    if v ~= want then return ("a column has %d zeros"):format(v) end
  end
end
function checks.row_sum(_, want, _, t)
  for _, v in ipairs(compare.elements(t:sum(-1))) do
    if math.abs(v - want) > 1e-5 then return "a row's sum is " .. v end
  end
end
function checks.constant_over_dims(_, dims, _, t)
  for _, v in ipairs(compare.elements(t:amax(dims) - t:amin(dims))) do
    if v ~= 0 then return "not constant over its dims" end
  end
end

local function check(t, expect)
  local list = compare.elements(t)
  local s = statistics(list)
  for key, want in pairs(expect) do
    if not checks[key] then return "no check for '" .. key .. "'" end
    local problem = checks[key](s, want, list, t)
    if problem then return problem end
  end
end

function M.random(case, tensors)
  local decoder = values.new(tensors)
  moth.manual_seed(7)
  local positional, keywords = decoder:arguments(case.args)
  if case.op:sub(-1) == "_" then positional[1] = moth.zeros(positional[1]) end
  local results = operations.call(case.op, values.pack(positional, keywords))
  return check(results[1], case.expect)
end

function M.seed(case)
  local function draw()
    if case.op == "bernoulli" then return moth.full({ 50 }, 0.5):bernoulli() end
    return operations.call(case.op, { 50, n = 1 })[1]
  end
  moth.manual_seed(3)
  local a = draw()
  local state = moth.get_rng_state()
  local b = draw()
  moth.manual_seed(3)
  local tol = {}
  if compare.tensor(draw(), a, tol) then return "the same seed gave other values" end
  moth.set_rng_state(state)
  if compare.tensor(draw(), b, tol) then return "the restored state gave other values" end
  if not compare.tensor(b, a, tol) then return "two draws are equal" end
end

-- Initialisers that set more than a distribution.
local function check_named(t, name)
  t = t:flatten(2)
  local n, k = t:size(1), t:size(2)
  if name == "orthogonal" then
    local wide = n < k and t or t:t()
    return wide:matmul(wide:t()), math.min(n, k)
  end
end

function M.init(case)
  local f = moth.nn.init[case.init]
  if not f then operations.missing("nn.init." .. case.init) end
  moth.manual_seed(11)
  local t = moth.zeros(case.shape)
  f(t, case.options or {})
  local expect = {}
  for k, v in pairs(case.expect) do expect[k] = v end
  if expect.orthogonal then
    local product, n = check_named(t, "orthogonal")
    local eye = moth.eye(n) * expect.orthogonal ^ 2
    expect.orthogonal = nil
    return compare.tensor(product, eye, { atol = 1e-4, rtol = 1e-4 }) or check(t, expect)
  end
  return check(t, expect)
end

function M.default_init(case)
  moth.manual_seed(5)
  local module = modules.build(case.module, case.ctor)
  local state = module:state_dict()
  for kind, wanted in pairs(case.expect) do
    for name, v in pairs(wanted) do
      if not state[name] then return "no parameter " .. name end
      local problem = check(state[name], { [kind] = v })
      if problem then return name .. ": " .. problem end
    end
  end
end

function M.fans(case)
  local a, b = moth.nn.init.fans(moth.zeros(case.shape))
  if a ~= case.expect[1] or b ~= case.expect[2] then return ("%s, %s"):format(a, b) end
end

function M.gain(case)
  local got = moth.nn.init.calculate_gain(case.nonlinearity, case.param)
  if not compare.close(got, case.expect, case) then return tostring(got) end
end

return M
