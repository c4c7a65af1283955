--- Values of the manifests (README.md, "Values") as arguments for Moth.
local moth = require "moth"

local M = {}
M.__index = M

--- A decoder for one case: `tensors` by key; leaves that want a gradient are collected in order.
function M.new(tensors)
  return setmetatable({ tensors = tensors, leaves = {}, vars = {} }, M)
end

local unpack = table.unpack

-- The steps that make a view; "slice" is a range along one dim.
local function view_step(t, step)
  local name = step[1]
  if name == "slice" then
    local items = {}
    local dim = step[2] < 0 and step[2] + t:dim() + 1 or step[2]
    for d = 1, dim - 1 do items[d] = {} end
    items[dim] = { step[3], step[4], step[5] }
    return t[items]
  elseif name == "expand" or name == "permute" then
    return t[name](t, unpack(step, 2))
  end
  return t[name](t, unpack(step, 2))
end

function M:tensor(key)
  local t = self.tensors[key]
  if not t then error("no tensor '" .. tostring(key) .. "' in the file") end
  return t
end

function M:leaf(key, number)
  local t = self:tensor(key):clone()
  if number then
    t:requires_grad_(true)
    self.leaves[number] = t
  end
  return t
end

local function range(s)
  if s.first == nil and s.last == nil and s.step == nil then return {} end
  return { s.first or 1, s.last or -1, s.step }
end

function M:value(v)
  if type(v) ~= "table" then return v end
  if v.t then
    if v.grad then return self:leaf(v.t, v.grad) end
    return self:tensor(v.t)
  elseif v.base then
    local t = self:leaf(v.base, v.grad)
    for _, step in ipairs(v.ops) do t = view_step(t, step) end
    return t
  elseif v.v then
    local value = self.vars[v.v]
    if value == nil then error("no variable '" .. v.v .. "'") end
    return value
  elseif v.complex then
    return moth.complex(moth.tensor(v.complex[1]), moth.tensor(v.complex[2]))
  elseif v.slice then
    return range(v.slice)
  elseif v.full then
    return moth.full(v.full, v.value)
  elseif v.randn then
    return moth.randn(v.randn)
  elseif v.list then
    return moth.tensor(v.list)
  end
  local list = {}
  for k, item in pairs(v) do list[k] = self:value(item) end
  return list
end

--- The arguments of a case: positional ones, and a table of keyword arguments or nil.
function M:arguments(args)
  local positional, keywords = { n = 0 }, nil
  for k, v in ipairs(args) do
    positional[k] = self:value(v)
    positional.n = k
  end
  local names = {}
  for k in pairs(args) do
    if type(k) == "string" then names[#names + 1] = k end
  end
  table.sort(names)
  for _, k in ipairs(names) do
    keywords = keywords or {}
    keywords[k] = self:value(args[k])
  end
  return positional, keywords
end

--- The arguments as one packed list, keywords last.
function M.pack(positional, keywords)
  if not keywords then return positional end
  local n = positional.n + 1
  positional[n], positional.n = keywords, n
  return positional
end

return M
