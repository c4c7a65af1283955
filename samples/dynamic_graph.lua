--- A network whose shape is decided by the data, with plain Lua control flow.
---
--- Sequences of random length hold numbers. A cell is applied once an element, so the depth is the
--- length; and a second, deeper branch is used where a sequence is long. The task: say whether the
--- sum is positive. The graph is a new one for every sequence, and gradients follow what was run.
---
---     moth samples/dynamic_graph.lua [--quick]
local moth = require "moth"
local nn, optim = require "moth.nn", require "moth.optim"

local quick = arg[1] == "--quick"
moth.manual_seed(3)
math.randomseed(3)

local Net = nn.class("DynamicNet")

function Net:init(size)
  self.size = size
  self.cell = nn.GRUCell(1, size)
  self.short = nn.Linear(size, 1)
  self.long = nn.Sequential(nn.Linear(size, size), nn.Tanh(), nn.Linear(size, 1))
end

function Net:forward(values)
  local h = moth.zeros(1, self.size)
  for _, v in ipairs(values) do
    h = self.cell(moth.tensor { { v } }, h)
  end
  if #values > 6 then return self.long(h) end
  return self.short(h)
end

local function sample()
  local values, sum = {}, 0.0
  for i = 1, math.random(2, 10) do
    values[i] = math.random() * 2 - 1
    sum = sum + values[i]
  end
  return values, sum > 0 and 1.0 or 0.0
end

local model = Net(16)
local optimizer = optim.Adam(model:parameters(), { lr = 0.01 })
local batches, batch_size = quick and 60 or 300, 16

for batch = 1, batches do
  local loss = 0.0
  for _ = 1, batch_size do
    local values, target = sample()
    local logit = model(values)
    loss = loss + nn.functional.binary_cross_entropy_with_logits(logit,
      moth.full({ 1, 1 }, target))
  end
  loss = loss / batch_size
  optimizer:zero_grad()
  loss:backward()
  optimizer:step()
  if batch % (batches // 6) == 0 then
    print(("batch %3d  loss %.3f"):format(batch, loss:item()))
  end
end

local right, n = 0, 200
moth.no_grad(function()
  for _ = 1, n do
    local values, target = sample()
    if (model(values):item() > 0) == (target == 1.0) then right = right + 1 end
  end
end)
print(("%.1f %% right on %d new sequences"):format(100 * right / n, n))
assert(right / n > (quick and 0.8 or 0.9), "the network did not learn to add")
