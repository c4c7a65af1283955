--- moth.train: helpers for training loops.
---
---     for bar, images, labels in train.progress(loader, { desc = "epoch 1" }) do
---       ...
---       bar:mean { loss = loss, accuracy = correct }      -- numbers or one-element tensors
---     end
---
--- On a terminal `progress` redraws one line, at most ten times a second; in a log it prints a line
--- every ten seconds and one at the end.
local moth = require "moth"
local args = require "moth.args"

local M = {}

local clock = moth.io.clock

---@class moth.train.Progress what `progress` gives first in each round
---@field i integer rounds so far
---@field total integer|nil how many there will be
local Progress = { __name = "moth.train.Progress" }
Progress.__index = Progress

local function number_of(v) return moth.is_tensor(v) and v:item() or v end

local function metric(self, name)
  local m = self.metrics[name]
  if not m then
    m = { sum = 0, count = 0 }
    self.metrics[name] = m
    self.names[#self.names + 1] = name
    table.sort(self.names)
  end
  return m
end

--- Shows the last value of each metric.
---@param values table<string, number|string|moth.Tensor>
function Progress:set(values)
  for name, value in pairs(values) do metric(self, name).last = value end
end

--- Shows the mean of all values given so far for each metric.
---@param values table<string, number|moth.Tensor>
function Progress:mean(values)
  for name, value in pairs(values) do
    local m = metric(self, name)
    m.sum, m.count = m.sum + number_of(value), m.count + 1
  end
end

--- The value that is shown for a metric.
---@param name string
function Progress:value(name)
  local m = self.metrics[name]
  if not m then return nil end
  if m.count > 0 then return m.sum / m.count end
  return number_of(m.last)
end

local function duration(seconds)
  seconds = math.floor(seconds + 0.5)
  if seconds >= 3600 then
    return ("%d:%02d:%02d"):format(seconds // 3600, seconds // 60 % 60, seconds % 60)
  end
  return ("%d:%02d"):format(seconds // 60, seconds % 60)
end

local function show_value(v)
  if math.type(v) == "float" then return ("%.4g"):format(v) end
  return tostring(v)
end

-- "84/188  0:12 < 0:08  7.1/s  loss 0.31"
local function status_text(self, now)
  local elapsed = now - self.start
  local parts = { self.total and ("%d/%d"):format(self.i, self.total) or tostring(self.i) }
  local time = duration(elapsed)
  if self.total and self.i > 0 and self.i < self.total then
    time = time .. " < " .. duration(elapsed / self.i * (self.total - self.i))
  end
  parts[2] = time
  if elapsed > 0 then parts[3] = ("%.1f/s"):format(self.i / elapsed) end
  for _, name in ipairs(self.names) do
    parts[#parts + 1] = name .. " " .. show_value(self:value(name))
  end
  return table.concat(parts, "  ")
end

local function bar_text(self, width)
  if not self.total then return "" end
  local full = self.total > 0 and self.i * width // self.total or width
  local head = full < width and full > 0 and ">" or ""
  return "[" .. ("="):rep(full - #head) .. head .. (" "):rep(width - full) .. "] "
end

local function draw(self, now, final)
  local desc = self.desc ~= "" and self.desc .. "  " or ""
  if self.terminal then
    local columns = tonumber(os.getenv("COLUMNS") or "") or 80
    local text = desc .. bar_text(self, 24) .. status_text(self, now)
    self.file:write("\r", text:sub(1, columns - 1), "\27[K", final and "\n" or "")
  else
    self.file:write(desc, status_text(self, now), "\n")
  end
  self.file:flush()
  self.drawn = now
end

--- Ends the line; called at the end of the loop, also when it is left early.
function Progress:close()
  if self.closed then return end
  self.closed = true
  draw(self, clock(), true)
end
Progress.__close = Progress.close

local function step(self)
  if self.i > 0 then
    local now = clock()
    if now - self.drawn >= self.interval then draw(self, now, false) end
  end
  self.i = self.i + 1
end

-- What is iterated over, as a function that gives the values of one round, and how many there are.
local function source(over)
  if math.type(over) == "integer" then
    local i = 0
    return function()
      i = i + 1
      if i <= over then return i end
    end, over
  elseif type(over) == "function" then
    return over
  elseif type(over) == "table" and type(over.batches) == "function" then
    return over:batches(), #over
  elseif type(over) == "table" then
    local i = 0
    return function()
      i = i + 1
      return over[i]
    end, #over
  end
  args.fail("progress: expected a loader, a number, a list or an iterator, got a " .. type(over))
end

local sig = args.parse("progress", "over, desc='', total=nil, terminal=nil, file=nil")

local function advance(self, first, ...)
  if first == nil then
    self.i = self.i - 1
    return nil
  end
  return self, first, ...
end

--- Iterates over a loader (or a number, a list, an iterator function) and shows how far it is. Each
--- round gives the progress object, then what the source gives.
---
---     for bar, i in train.progress(1000) do bar:set { loss = 1 / i } end
---@param over table|integer|function
---@param options? { desc: string, total: integer, terminal: boolean, file: file* }
function M.progress(...)
  local over, desc, total, terminal, file = sig:resolve(...)
  local next_values, count = source(over)
  if terminal == nil then terminal = not file and moth.io.isatty(1) end
  local self = setmetatable({
    i = 0, total = total or count, desc = desc, terminal = terminal, file = file or io.stdout,
    metrics = {}, names = {}, start = clock(), drawn = clock(), interval = terminal and 0.1 or 10,
  }, Progress)
  return function()
    step(self)
    return advance(self, next_values())
  end, nil, nil, self
end

--- Share of the samples that a classifier gets right, 0..1. The model is in evaluation mode
--- meanwhile.
---@param model moth.nn.Module
---@param loader moth.data.DataLoader of inputs and class numbers
---@return number
function M.accuracy(model, loader)
  local _ <close> = moth.no_grad()
  local modes, right, n = {}, 0, 0
  for _, module in ipairs(model:modules()) do modes[module] = module.training end
  model:eval()
  for x, y in loader:batches() do
    right = right + model(x):argmax(-1):eq(y):sum():item()
    n = n + y:numel()
  end
  for module, mode in pairs(modes) do module.training = mode end
  return n > 0 and right / n or 0.0
end

return M
