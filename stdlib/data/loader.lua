--- DataLoader: batches of a dataset in order or shuffled.
---
---     local loader = data.DataLoader(ds, { batch_size = 64, shuffle = true })
---     print(#loader)                                   -- batches in an epoch
---     for images, labels in loader:batches() do ... end
---
--- Each call of `batches` is one epoch. With `seed` the order of every epoch is fixed, whatever
--- else draws random numbers. A dataset that has `get_batch` (TensorDataset, MNIST, subsets of
--- them) gives whole batches by index; for others the samples are fetched singly and stacked.
local moth = require "moth"
local args = require "moth.args"
local sampler = require "moth.data.sampler"

local M = {}

---@class moth.data.DataLoader
---@field dataset table
---@field batch_size integer
---@field epoch integer how many epochs were started
local Loader = { __name = "DataLoader" }
Loader.__index = Loader

local function stack_column(column)
  local first = column[1]
  if moth.is_tensor(first) then return moth.stack(column) end
  if type(first) == "number" or type(first) == "boolean" then return moth.tensor(column) end
  return column
end

--- Joins samples, each a list of values, to a batch: tensors are stacked, numbers and booleans
--- become a tensor, anything else a list.
---@param samples table[]
function M.default_collate(samples)
  local width, batch = samples[1].n or #samples[1], {}
  for k = 1, width do
    local column = {}
    for i, sample in ipairs(samples) do column[i] = sample[k] end
    batch[k] = stack_column(column)
  end
  return table.unpack(batch, 1, width)
end

local sig = args.parse("DataLoader", "dataset, batch_size=1, shuffle=false, sampler=nil, "
  .. "collate_fn=nil, drop_last=false, seed=nil")

local function construct(_, ...)
  local dataset, batch_size, shuffle, given, collate, drop_last, seed = sig:resolve(...)
  if type(dataset) ~= "table" or type(dataset.get) ~= "function" then
    sig:fail("a dataset needs a method get(i) and a length, got a " .. type(dataset))
  elseif math.type(batch_size) ~= "integer" or batch_size < 1 then
    sig:fail("batch_size must be an integer from 1, got " .. tostring(batch_size))
  elseif given and shuffle then
    sig:fail("give either a sampler or shuffle=true")
  end
  local order = given or shuffle and sampler.RandomSampler(seed) or sampler.SequentialSampler()
  return setmetatable({
    dataset = dataset, batch_size = batch_size, drop_last = drop_last, sampler = order,
    collate_fn = collate, epoch = 0,
  }, Loader)
end

--- How many batches an epoch has.
function Loader:__len()
  local n = sampler.count(self.sampler, #self.dataset)
  if self.drop_last then return n // self.batch_size end
  return (n + self.batch_size - 1) // self.batch_size
end

local function fetch(self, indices)
  local dataset, samples = self.dataset, {}
  for k, i in ipairs(indices:tolist()) do samples[k] = table.pack(dataset:get(i)) end
  return (self.collate_fn or M.default_collate)(samples)
end

--- Iterates over the batches of one epoch; a batch is as many values as a sample has.
function Loader:batches()
  self.epoch = self.epoch + 1
  local total, at, size = #self, 0, self.batch_size
  if total == 0 then return function() return nil end end
  local indices = self.sampler:indices(#self.dataset, self.epoch)
  local count = indices:size(1)
  local whole = not self.collate_fn and self.dataset.get_batch
  return function()
    if at >= total then return nil end
    local first = at * size + 1
    at = at + 1
    local part = indices:narrow(1, first, math.min(size, count - first + 1))
    if whole then return whole(self.dataset, part) end
    return fetch(self, part)
  end
end

function Loader:__tostring()
  return ("DataLoader(%s, batch_size=%d, %d batches)"):format(
    tostring(self.dataset), self.batch_size, #self)
end

M.DataLoader = setmetatable(Loader, { __call = construct })

return M
