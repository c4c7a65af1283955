--- The checks: each takes a row and returns nil, or what is wrong.
local moth = require "moth"
local autograd = require "moth.autograd"
local compare = require "runner.compare"

local M = {}

local function is_float(t) return t.dtype == "float64" or t.dtype == "float32" end

-- Compares two lists of results.
local function same(got, want, tol)
  if #got ~= #want then return ("%d results, should be %d"):format(#got, #want) end
  for i, w in ipairs(want) do
    local problem
    if moth.is_tensor(w) then
      problem = compare.tensor(got[i], w, tol)
    elseif got[i] ~= w then
      problem = ("%s, should be %s"):format(tostring(got[i]), tostring(w))
    end
    if problem then return ("result %d: %s"):format(i, problem) end
  end
end

local exact, close = { rtol = 0, atol = 0 }, { rtol = 1e-9, atol = 1e-11 }

--- The same arguments give the same results, and leave the arguments alone.
function M.repeats(row)
  local args = row:make()
  local copies = row:map(args, function(t) return t:clone() end)
  local first = row:call(args)
  local problem = same(row:call(args), first, exact)
  if problem then return "a second call differs: " .. problem end
  local changed
  row:map(args, function(t) changed = changed or t end)
  for i = 1, args.n do
    if moth.is_tensor(args[i]) and compare.tensor(args[i], copies[i], exact) then
      return "argument " .. i .. " was changed"
    end
  end
end

-- The same elements in another layout.
local layouts = {
  permuted = function(t)
    if t:dim() < 2 then return t end
    return t:transpose(1, -1):contiguous():transpose(1, -1)
  end,
  gaps = function(t)
    if t:dim() == 0 then return t end
    local shape = t.shape
    shape[#shape] = 2 * shape[#shape] + 1
    local wide = moth.zeros(shape, { dtype = t.dtype })
    local items = { "...", { 2, -1, 2 } }
    if t:numel() == 0 then return t end
    wide[items] = t
    return wide[items]
  end,
}

--- Strided inputs give what contiguous ones give.
function M.strided(row)
  local args = row:make()
  local want = row:call(args)
  for name, layout in pairs(layouts) do
    local problem = same(row:call(row:map(args, layout)), want, close)
    if problem then return name .. ": " .. problem end
  end
end

--- An input expanded from one row gives what its copy gives.
function M.broadcast(row)
  local args = row:make()
  local function widen(t)
    if t:dim() == 0 or t:size(1) < 2 then return t end
    return t:narrow(1, 1, 1):expand(t.shape)
  end
  local views = row:map(args, widen)
  local copies = row:map(views, function(t) return t:contiguous() end)
  return same(row:call(views), row:call(copies), close)
end

-- Whether an error is one of ours and no internal failure.
local function clean(message)
  message = tostring(message)
  if message:find("attempt to ") or message:find("unknown error") or #message < 12 then
    return "a bad message: " .. message
  end
end

--- Inputs without elements: results, or an error that says something.
function M.empty(row)
  local args = row:make()
  local empty = row:map(args, function(t) return t:dim() > 0 and t:narrow(1, 1, 0) or t end)
  local ok, message = pcall(row.call, row, empty)
  if not ok then return clean(message) end
end

local dtypes = {
  "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool",
  "complex64",
}

-- An error about a dtype names the operation.
local function names_operation(row, message)
  local name = row.name:gsub("^_+", "")
  if not tostring(message):find(name, 1, true) then
    return "the message does not name the operation: " .. tostring(message)
  end
end

--- Every dtype runs, or raises an error that names the operation.
function M.dtypes(row)
  for _, dtype in ipairs(dtypes) do
    local args = row:map(row:make(), function(t, item)
      if item.how == "?" or item.how:sub(1, 1) == "i" then return t end
      return t:to(dtype)
    end)
    local ok, message = pcall(row.call, row, args)
    if not ok then
      local problem = clean(message) or names_operation(row, message)
      if problem then return dtype .. ": " .. problem end
    end
  end
end

--- name_ writes what name returns.
function M.inplace(row)
  if not row.inplace then return nil end
  local args = row:make()
  local want = row:call(args)[1]
  if not moth.is_tensor(args[1]) or want.dtype ~= args[1].dtype
    or not want:is_same_size(args[1]) then
    return nil
  end
  local target = args[1]:clone()
  local f = target[row.name .. "_"]
  if not f then return "there is no " .. row.name .. "_" end
  local again = { n = args.n }
  for i = 1, args.n do again[i] = args[i] end
  again[1] = target
  local got = row:call(again, f)[1]
  if not rawequal(got, target) and got ~= target and not got:is_set_to(target) then
    return "the in-place form does not return its tensor"
  end
  return compare.tensor(target, want, exact)
end

--- A wrong kind of value for each argument: the message names operation and argument.
function M.arguments(row)
  for i, a in ipairs(row.arguments) do
    local args = row:make()
    if not a.keyword and i <= args.n then
      args[i] = function() end
      local ok, message = pcall(row.call, row, args)
      if ok then return a.name .. ": a function was accepted" end
      if not message:find(a.name, 1, true) and i > 1 then
        return a.name .. ": the message does not name the argument: " .. message
      end
      local problem = names_operation(row, message)
      if problem then return problem end
    end
  end
  local args = row:make()
  local given = { table.unpack(args, 1, args.n) }
  given[args.n + 1] = { no_such_argument = 1 }
  local ok, message = pcall(row:callee(), table.unpack(given, 1, args.n + 1))
  if ok then return "an unknown keyword was accepted" end
  return clean(message)
end

-- Float inputs as leaves, and the function of all arguments that gradcheck varies.
local function differentiable(row)
  local args, leaves, at = row:make(), {}, {}
  if row.nograd then return nil end
  row:map(args, function(t, _, argument)
    if is_float(t) and argument.kind ~= "index" then
      leaves[#leaves + 1] = t:requires_grad_(true)
    end
  end)
  if #leaves == 0 then return nil end
  local results = row:call(args)
  for i, y in ipairs(results) do
    if moth.is_tensor(y) and y.requires_grad and is_float(y) then at[#at + 1] = i end
  end
  if #at == 0 then return nil end
  local function f(...)
    local given, k = { ... }, 0
    local copy = row:map(args, function(t)
      if not is_float(t) then return t end
      k = k + 1
      return given[k]
    end)
    local all, kept = row:call(copy), {}
    for n, i in ipairs(at) do kept[n] = all[i] end
    return table.unpack(kept)
  end
  return f, leaves
end

--- Backward agrees with differences, in float64.
function M.gradient(row)
  local f, leaves = differentiable(row)
  if not f then return nil end
  local ok, why = autograd.gradcheck(f, leaves, { raise_exception = false })
  if not ok then return why end
end

--- And so does the backward of backward.
function M.second(row)
  local f, leaves = differentiable(row)
  if not f then return nil end
  local ok, why = autograd.gradgradcheck(f, leaves, { raise_exception = false })
  if not ok then return why end
end

return M
