--- moth.autograd, the part written in Lua: derivatives as functions, and checks of gradients
--- against differences.
---
---     local autograd = require "moth.autograd"
---     local x = moth.randn(3, { dtype = "float64", requires_grad = true })
---     autograd.gradcheck(function(a) return a:tanh() end, { x })          --> true, or an error
---     autograd.jacobian(function(a) return a * a end, x)                   --> diag(2 x)
local moth = require "moth"
local args = require "moth.args"

local M = rawget(moth, "autograd") or {}

local function list(v)
  return moth.is_tensor(v) and { v } or v
end

local function call(f, inputs) return { f(table.unpack(inputs, 1, #inputs)) } end

local function with_grad(f, ...)
  local _ <close> = moth.enable_grad()
  return f(...)
end

-- Outputs that gradients can flow into.
local function differentiable(outputs)
  local kept = {}
  for _, y in ipairs(outputs) do
    if moth.is_tensor(y) and y:is_floating_point() then kept[#kept + 1] = y end
  end
  return kept
end

-- Every element of a tensor as a 0-dim view of it, in row-major order.
local function cells_of(t, cells)
  cells = cells or {}
  if t:dim() == 0 then
    cells[#cells + 1] = t
  else
    for i = 1, t:size(1) do cells_of(t:select(1, i), cells) end
  end
  return cells
end

local function values_of(t)
  return t:detach():to("float64"):reshape(-1):tolist()
end

-- d outputs / d one input by central differences: rows[k][j] for element j of the input and all
-- elements of output k.
local function numerical(f, inputs, x, eps)
  local _ <close> = moth.no_grad()
  local rows = {}
  for j, cell in ipairs(cells_of(x:detach())) do
    local value = cell:item()
    cell:fill_(value + eps)
    local above = differentiable(call(f, inputs))
    for k, y in ipairs(above) do above[k] = values_of(y) end
    cell:fill_(value - eps)
    local below = differentiable(call(f, inputs))
    for k, y in ipairs(below) do below[k] = values_of(y) end -- now: y may be a view of the input
    cell:fill_(value)
    for k, low in ipairs(below) do
      local column = {}
      for i, v in ipairs(low) do column[i] = (above[k][i] - v) / (2 * eps) end
      rows[k] = rows[k] or {}
      rows[k][j] = column
    end
  end
  return rows
end

-- The same by backward, for all inputs: result[k][input][i] are the gradients of element i.
local function analytical(outputs, inputs)
  local result = {}
  for k, y in ipairs(outputs) do
    local per_input = {}
    for n = 1, #inputs do per_input[n] = {} end
    for i = 1, y:numel() do
      if y.requires_grad then
        local seed = moth.zeros(y:numel(), { dtype = y.dtype })
        seed:narrow(1, i, 1):fill_(1)
        local grads = M.grad({ y }, inputs,
          { grad_outputs = { seed:reshape(y.shape) }, retain_graph = true, allow_unused = true })
        for n in ipairs(inputs) do per_input[n][i] = grads[n] and values_of(grads[n]) or false end
      end
    end
    result[k] = per_input
  end
  return result
end

local function close(a, b, rtol, atol)
  if a == b or (a ~= a and b ~= b) then return true end
  return math.abs(a - b) <= atol + rtol * math.abs(b)
end

local function compare(k, n, numeric, exact, rtol, atol)
  for j, column in ipairs(numeric or {}) do
    for i, want in ipairs(column) do
      local got = exact[i] and exact[i][j] or 0.0
      if not close(got, want, rtol, atol) then
        return ("gradcheck: output %d, element %d, by input %d, element %d: backward gives %.9g, "
          .. "differences give %.9g"):format(k, i, n, j, got, want)
      end
    end
  end
end

local sig = args.parse("gradcheck",
  "f, inputs, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=true")

local function check_inputs(inputs)
  local wanted = {}
  for _, x in ipairs(inputs) do
    if moth.is_tensor(x) and x.requires_grad then
      if x.dtype ~= "float64" then
        args.fail("gradcheck: inputs that require grad must be float64, got " .. x.dtype)
      end
      wanted[#wanted + 1] = x
    end
  end
  if #wanted == 0 then args.fail("gradcheck: no input requires grad") end
  return wanted
end

--- Compares backward with central differences for every element of every input that requires grad
--- (float64). True when they agree; else raises, or returns false and why with
--- raise_exception=false. f must give the same results each time it is called.
---@param f fun(...): moth.Tensor
---@param inputs moth.Tensor|any[]
---@param options? { eps: number, atol: number, rtol: number, raise_exception: boolean }
---@return boolean ok, string|nil why
function M.gradcheck(...)
  local f, inputs, eps, atol, rtol, raise = sig:resolve(...)
  inputs = list(inputs)
  local wanted = check_inputs(inputs)
  local outputs = differentiable(call(f, inputs))
  local exact, why = analytical(outputs, wanted), nil
  for n, x in ipairs(wanted) do
    local numeric = numerical(f, inputs, x, eps)
    for k in ipairs(outputs) do
      why = why or compare(k, n, numeric[k], exact[k][n], rtol, atol)
    end
  end
  if why and raise then args.fail(why) end
  return why == nil, why
end

--- Gradcheck of the gradients: compares the second derivatives with differences of the first.
---@param f fun(...): moth.Tensor
---@param inputs moth.Tensor|any[]
---@param options? table as for gradcheck
---@return boolean ok, string|nil why
function M.gradgradcheck(f, inputs, options)
  inputs = list(inputs)
  local wanted = check_inputs(inputs)
  local all, at = { table.unpack(inputs) }, {}
  for _, y in ipairs(differentiable(call(f, inputs))) do
    if y.requires_grad then
      local weight = moth.randn(y.shape, { dtype = y.dtype }):requires_grad_()
      all[#all + 1] = weight
    end
  end
  for i, x in ipairs(inputs) do
    for _, w in ipairs(wanted) do
      if rawequal(x, w) then at[#at + 1] = i end
    end
  end
  local function gradients(...)
    local given, weights, of, outputs = { ... }, {}, {}, {}
    local first = { table.unpack(given, 1, #inputs) }
    for _, y in ipairs(differentiable(call(f, first))) do
      if y.requires_grad then outputs[#outputs + 1] = y end
    end
    for k = 1, #outputs do weights[k] = given[#inputs + k] end
    for k, i in ipairs(at) do of[k] = given[i] end
    local grads = M.grad(outputs, of,
      { grad_outputs = weights, create_graph = true, allow_unused = true })
    local kept = {}
    for _, g in ipairs(grads) do
      if g then kept[#kept + 1] = g end
    end
    return table.unpack(kept)
  end
  return M.gradcheck(function(...) return with_grad(gradients, ...) end, all, options)
end

-- A fresh leaf with the values of x, unless the caller differentiates further.
local function leaf(x, create_graph)
  if create_graph and x.requires_grad then return x:view_as(x) end
  return x:detach():requires_grad_()
end

local function leaves(inputs, create_graph)
  local fresh = {}
  for i, x in ipairs(list(inputs)) do fresh[i] = leaf(x, create_graph) end
  return fresh
end

-- Rows of the Jacobian of y, stacked to y.shape .. x.shape for each x.
local function jacobian_of(y, inputs, create_graph)
  local rows = {}
  for n = 1, #inputs do rows[n] = {} end
  local flat = y:reshape(-1)
  for i = 1, y.requires_grad and flat:numel() or 0 do
    local grads = M.grad({ flat:select(1, i) }, inputs,
      { retain_graph = true, create_graph = create_graph, allow_unused = true })
    for n, x in ipairs(inputs) do rows[n][i] = grads[n] or moth.zeros_like(x) end
  end
  for n, x in ipairs(inputs) do
    local shape = y.shape
    for _, size in ipairs(x.shape) do shape[#shape + 1] = size end
    rows[n] = #rows[n] > 0 and moth.stack(rows[n]):reshape(shape)
      or moth.zeros(shape, { dtype = y.dtype })
  end
  return rows
end

--- The Jacobian of f at the inputs, with shape output.shape .. input.shape; a list of them when the
--- inputs are a list.
---@param f fun(...): moth.Tensor
---@param inputs moth.Tensor|moth.Tensor[]
---@param options? { create_graph: boolean }
function M.jacobian(f, inputs, options)
  local create = options ~= nil and options.create_graph == true
  return with_grad(function()
    local xs = leaves(inputs, create)
    local rows = jacobian_of(f(table.unpack(xs)), xs, create)
    return moth.is_tensor(inputs) and rows[1] or rows
  end)
end

--- The matrix of second derivatives of a function with one element as result; for a list of inputs
--- a list of rows.
---@param f fun(...): moth.Tensor
---@param inputs moth.Tensor|moth.Tensor[]
function M.hessian(f, inputs)
  return with_grad(function()
    local xs = leaves(inputs, false)
    local grads = M.grad({ f(table.unpack(xs)) }, xs, { create_graph = true, allow_unused = true })
    local rows = {}
    for n, g in ipairs(grads) do
      rows[n] = jacobian_of(g or moth.zeros_like(xs[n]), xs, false)
    end
    return moth.is_tensor(inputs) and rows[1][1] or rows
  end)
end

--- f at the inputs, and the product of a vector with its Jacobian.
---@param f fun(...): moth.Tensor
---@param inputs moth.Tensor|moth.Tensor[]
---@param v? moth.Tensor of the shape of the result; default ones
function M.vjp(f, inputs, v)
  return with_grad(function()
    local xs = leaves(inputs, false)
    local y = f(table.unpack(xs))
    local grads = M.grad({ y }, xs, { grad_outputs = { v or moth.ones_like(y) },
      allow_unused = true })
    for n, x in ipairs(xs) do grads[n] = grads[n] or moth.zeros_like(x) end
    return y:detach(), moth.is_tensor(inputs) and grads[1] or grads
  end)
end

return M
