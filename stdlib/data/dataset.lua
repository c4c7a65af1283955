--- Datasets: anything with `ds:get(i)` (i from 1) and `#ds`. What `get` returns is one sample, as
--- one or several values. A dataset may also have `ds:get_batch(indices)`, which takes a tensor of
--- positions and returns a whole batch at once; loaders use it when it is there.
---
---     local Squares = data.dataset("Squares")
---     function Squares:init(n) self.n = n end
---     function Squares:get(i) return moth.tensor(i * 1.0), i * i end
---     function Squares:__len() return self.n end
local moth = require "moth"
local args = require "moth.args"

local M = {}

--- A new class of datasets. Instances are made by calling it; `init` gets the arguments.
---@param name string
function M.dataset(name)
  local class = { __name = name }
  class.__index = class
  function class.__tostring(self) return ("%s(%d samples)"):format(name, #self) end
  return setmetatable(class, {
    __call = function(_, ...)
      local self = setmetatable({}, class)
      if class.init then self:init(...) end
      return self
    end,
  })
end

--- Raises unless i is a position of the dataset; negative ones count from the end.
local function check_position(self, i)
  local n = #self
  if math.type(i) ~= "integer" then
    args.fail("dataset: a position must be an integer, got " .. tostring(i))
  end
  local at = i < 0 and n + 1 + i or i
  if at < 1 or at > n then
    args.fail(i == 0 and "dataset: positions start at 1"
      or ("dataset: position %d is out of range 1..%d"):format(i, n))
  end
  return at
end
M.check_position = check_position

--- Tensors of the same length; a sample is one row of each.
---
---     local ds = data.TensorDataset(images, labels)
---     local image, label = ds:get(1)
---@class moth.data.TensorDataset
local TensorDataset = M.dataset("TensorDataset")
M.TensorDataset = TensorDataset

function TensorDataset:init(...)
  self.tensors = { ... }
  if #self.tensors == 0 then args.fail("TensorDataset: no tensors given") end
  for i, t in ipairs(self.tensors) do
    if not moth.is_tensor(t) or t:dim() == 0 then
      args.fail(("TensorDataset: argument %d is not a tensor of at least one dim"):format(i))
    elseif t:size(1) ~= self.tensors[1]:size(1) then
      args.fail(("TensorDataset: tensor %d has %d rows, the first has %d"):format(
        i, t:size(1), self.tensors[1]:size(1)))
    end
  end
end

function TensorDataset:__len() return self.tensors[1]:size(1) end

function TensorDataset:get(i)
  i = check_position(self, i)
  local row = {}
  for k, t in ipairs(self.tensors) do row[k] = t:select(1, i) end
  return table.unpack(row)
end

--- The rows at the positions of an index tensor, from every tensor.
function TensorDataset:get_batch(indices)
  local tensors = self.tensors
  if #tensors == 2 then
    return tensors[1]:index_select(1, indices), tensors[2]:index_select(1, indices)
  end
  local rows = {}
  for k, t in ipairs(tensors) do rows[k] = t:index_select(1, indices) end
  return table.unpack(rows)
end

--- Some samples of a dataset, by position.
---@class moth.data.Subset
local Subset = M.dataset("Subset")
M.Subset = Subset

--- `indices` is a list or a tensor of positions in `dataset`.
function Subset:init(dataset, indices)
  if type(indices) == "userdata" then indices = indices:tolist() end
  for k, i in ipairs(indices) do indices[k] = check_position(dataset, i) end
  self.dataset, self.indices = dataset, indices
  if dataset.get_batch then self._positions = moth.tensor(indices, { dtype = "int64" }) end
end

function Subset:__len() return #self.indices end

function Subset:get(i) return self.dataset:get(self.indices[check_position(self, i)]) end

-- A subset can give whole batches when its dataset can.
function Subset.__index(self, key)
  if key == "get_batch" and rawget(self, "_positions") then return Subset._get_batch end
  return rawget(Subset, key)
end

function Subset:_get_batch(indices)
  return self.dataset:get_batch(self._positions:index_select(1, indices))
end

--- Several datasets behind each other.
---@class moth.data.ConcatDataset
local Concat = M.dataset("ConcatDataset")
M.ConcatDataset = Concat

function Concat:init(datasets)
  self.datasets, self.ends = datasets, {}
  local n = 0
  for k, ds in ipairs(datasets) do
    n = n + #ds
    self.ends[k] = n
  end
end

function Concat:__len() return self.ends[#self.ends] or 0 end

function Concat:get(i)
  i = check_position(self, i)
  for k, last in ipairs(self.ends) do
    if i <= last then return self.datasets[k]:get(i - (self.ends[k - 1] or 0)) end
  end
end

-- Sizes from lengths or from fractions that sum to 1; what rounding leaves goes to the first parts.
local function split_sizes(n, lengths)
  local sum = 0
  for _, l in ipairs(lengths) do sum = sum + l end
  if math.abs(sum - 1) > 1e-9 then
    if sum ~= n then
      args.fail(("random_split: the lengths sum to %s, the dataset has %d samples"):format(
        tostring(sum), n))
    end
    return lengths
  end
  local sizes, used = {}, 0
  for k, fraction in ipairs(lengths) do
    sizes[k] = math.floor(fraction * n)
    used = used + sizes[k]
  end
  for k = 1, n - used do sizes[(k - 1) % #sizes + 1] = sizes[(k - 1) % #sizes + 1] + 1 end
  return sizes
end

--- Divides a dataset at random into parts of the given lengths, or fractions that sum to 1.
---
---     local train, test = table.unpack(data.random_split(ds, { 0.8, 0.2 }))
---@param dataset table
---@param lengths number[]
---@param options? { seed: integer } draws the same parts each time
---@return table[] subsets
function M.random_split(dataset, lengths, options)
  local n = #dataset
  local sizes = split_sizes(n, lengths)
  local shuffled = require("moth.data.sampler").permutation(n, options and options.seed):tolist()
  local parts, first = {}, 1
  for k, size in ipairs(sizes) do
    parts[k] = Subset(dataset, table.move(shuffled, first, first + size - 1, 1, {}))
    first = first + size
  end
  return parts
end

return M
