--- Hooks of modules: functions called before forward, after forward, and when gradients flow back
--- through a module. A module without hooks has `_hooks == false` and never comes here.
---
--- Gradients are caught at identities put around the module: the gradient of an input is that of
--- this use of it alone, even when the tensor is used elsewhere too.
local M = {}

local pack, unpack = table.pack, table.unpack

---@class moth.nn.Handle what `register_*_hook` returns
local Handle = { __name = "moth.nn.Handle" }
Handle.__index = Handle

--- Takes the hook off again; a second call does nothing.
function Handle:remove()
  local hooks = self.module._hooks
  if not hooks then return end
  for i, f in ipairs(hooks[self.kind]) do
    if f == self.entry then
      table.remove(hooks[self.kind], i)
      break
    end
  end
  if #hooks.pre + #hooks.post + #hooks.back == 0 then self.module._hooks = false end
end

Handle.__close = Handle.remove

--- Adds a function to the hooks of a module.
---@param kind "pre"|"post"|"back"
function M.add(module, kind, f)
  if type(f) ~= "function" then error("a hook must be a function, got " .. type(f), 3) end
  local hooks = module._hooks
  if not hooks then
    hooks = { pre = {}, post = {}, back = {} }
    module._hooks = hooks
  end
  local entry = { f }
  table.insert(hooks[kind], entry)
  return setmetatable({ module = module, kind = kind, entry = entry }, Handle)
end

local function is_tensor(v) return type(v) == "userdata" end

local function wants_grad(v) return is_tensor(v) and v.requires_grad end

local function run_back(module, hooks, grad_input, grad_output)
  for _, entry in ipairs(hooks) do
    local replaced = entry[1](module, grad_input, grad_output)
    if replaced ~= nil then
      grad_input = is_tensor(replaced) and { replaced } or replaced
    end
  end
  return grad_input
end

-- An identity whose backward calls `record`; made when the first backward hook runs.
local watch
local function watch_function()
  if watch then return watch end
  watch = require("moth").autograd.Function("backward hook")
  function watch.forward(ctx, record, ...)
    ctx.record = record
    return ...
  end
  function watch.backward(ctx, ...) return nil, ctx.record(...) end
  return watch
end

-- Puts identities on the inputs that want gradients; `seen.output` holds the gradients of the
-- results by the time theirs come. Returns whether there is such an input.
local function watch_inputs(module, hooks, inputs, seen)
  local at, tensors = {}, {}
  for i = 1, inputs.n do
    if wants_grad(inputs[i]) then
      at[#at + 1], tensors[#tensors + 1] = i, inputs[i]
    end
  end
  if #at == 0 then return false end
  local function record(...)
    local grads, given = {}, { ... }
    for j, i in ipairs(at) do grads[i] = given[j] end
    grads = run_back(module, hooks, grads, seen.output)
    local result = {}
    for j, i in ipairs(at) do result[j] = grads[i] end
    return unpack(result, 1, #at)
  end
  local watched = { watch_function().apply(record, unpack(tensors)) }
  for j, i in ipairs(at) do inputs[i] = watched[j] end
  return true
end

local function watch_outputs(module, hooks, outputs, seen, has_input)
  for i = 1, outputs.n do
    local y = outputs[i]
    if wants_grad(y) then
      y = y:view_as(y)
      outputs[i] = y
      y:register_hook(function(g)
        seen.output[i] = g
        if not has_input then run_back(module, hooks, {}, seen.output) end
      end)
    end
  end
end

local function replace(values, replaced)
  if replaced == nil then return values end
  if type(replaced) == "table" and getmetatable(replaced) == nil then
    replaced.n = #replaced
    return replaced
  end
  return { n = 1, replaced }
end

--- Calls a module that has hooks.
function M.run(module, ...)
  local hooks = module._hooks
  local inputs = pack(...)
  for _, entry in ipairs(hooks.pre) do
    inputs = replace(inputs, entry[1](module, inputs))
  end
  local seen, has_input = { output = {} }, false
  local back = #hooks.back > 0 and hooks.back
  if back then has_input = watch_inputs(module, back, inputs, seen) end
  local outputs = pack(module:forward(unpack(inputs, 1, inputs.n)))
  for _, entry in ipairs(hooks.post) do
    local shown = outputs[1]
    if outputs.n > 1 then shown = outputs end
    outputs = replace(outputs, entry[1](module, inputs, shown))
  end
  if back then watch_outputs(module, back, outputs, seen, has_input) end
  return unpack(outputs, 1, outputs.n)
end

return M
