--- Orders in which a loader visits a dataset. A sampler is an object with a method
--- `indices(n, epoch)` that returns a tensor of positions; the random ones repeat themselves for
--- the same seed and epoch.
local moth = require "moth"
local args = require "moth.args"

local M = {}

--- 1..n in random order. With a seed, always the same order, and the global generator stays where
--- it is; without one, drawn from the global generator.
---@param n integer
---@param seed? integer
function M.permutation(n, seed)
  if not seed then return moth.randperm(n) end
  local state = moth.get_rng_state()
  moth.manual_seed(seed)
  local order = moth.randperm(n)
  moth.set_rng_state(state)
  return order
end

-- One seed for each epoch: neighbouring seeds and epochs must not meet.
local function epoch_seed(seed, epoch) return seed and (seed * 1000003 + epoch) end

local function class(name)
  local c = { __name = name }
  c.__index = c
  return setmetatable(c, {
    __call = function(_, ...)
      local self = setmetatable({}, c)
      self:init(...)
      return self
    end,
  })
end

--- 1, 2, ... n.
M.SequentialSampler = class("SequentialSampler")
function M.SequentialSampler:init() end
function M.SequentialSampler:indices(n) return moth.arange(1, n + 1) end

--- A new random order each epoch.
M.RandomSampler = class("RandomSampler")
---@param seed? integer
function M.RandomSampler:init(seed) self.seed = seed end
function M.RandomSampler:indices(n, epoch)
  return M.permutation(n, epoch_seed(self.seed, epoch))
end

--- Draws positions with replacement, in proportion to weights (for classes of unequal size).
M.WeightedRandomSampler = class("WeightedRandomSampler")

---@param weights moth.Tensor|number[] one for each sample
---@param num_samples integer how many to draw in an epoch
---@param options? { replacement: boolean }
function M.WeightedRandomSampler:init(weights, num_samples, options)
  self.weights = moth.is_tensor(weights) and weights or moth.tensor(weights, { dtype = "float64" })
  self.num_samples = num_samples
  self.replacement = not (options and options.replacement == false)
end

function M.WeightedRandomSampler:indices(n)
  if self.weights:numel() ~= n then
    args.fail(("WeightedRandomSampler: %d weights for %d samples"):format(self.weights:numel(), n))
  end
  return moth.multinomial(self.weights, self.num_samples, self.replacement)
end

--- How many positions a sampler gives for n samples.
function M.count(sampler, n) return sampler.num_samples or n end

return M
