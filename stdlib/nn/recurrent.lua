--- RNN, LSTM and GRU over whole sequences: several layers, both directions, dropout between layers.
---
--- Inputs are (T, N, input_size), (N, T, input_size) with batch_first, or (T, input_size) for one
--- sequence. States are (layers * directions, N, hidden_size). Parameters are named as in PyTorch:
--- weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, then those of the reverse direction and of
--- the next layers; the operation takes them in this order.
---
---     local lstm = nn.LSTM(10, 20, { num_layers = 2 })
---     local y, state = lstm(x)                -- state is {h, c}
---     y, state = lstm(x2, state)
local moth = require "moth"
local args = require "moth.args"
local class = require "moth.nn.class"
local cells = require "moth.nn.cells"

local M = {}
local Parameter = class.Parameter

local Recurrent = class.class("Recurrent")

local function add_parameters(self, gates, layer, reverse)
  local rows, state_size = gates * self.hidden_size, self:_state_size()
  local inputs = layer == 1 and self.input_size
    or state_size * (self.bidirectional and 2 or 1)
  local tail = "_l" .. (layer - 1) .. (reverse and "_reverse" or "")
  local function add(name, ...)
    name = name .. tail
    self._weights[#self._weights + 1] = name
    self[name] = Parameter(moth.empty(...))
  end
  add("weight_ih", rows, inputs)
  add("weight_hh", rows, state_size)
  if self.bias then
    add("bias_ih", rows)
    add("bias_hh", rows)
  end
  if self.proj_size > 0 then add("weight_hr", self.proj_size, self.hidden_size) end
end

-- What all three share after their own arguments are read.
local function setup(self, kind, input_size, hidden_size, num_layers, bias, batch_first, dropout,
                     bidirectional, proj_size)
  self._weights, self.input_size, self.hidden_size = {}, input_size, hidden_size
  self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
  self.dropout, self.bidirectional, self.proj_size = dropout, bidirectional, proj_size or 0
  if self.proj_size >= hidden_size then
    args.fail("LSTM: proj_size must be smaller than hidden_size")
  end
  for layer = 1, num_layers do
    add_parameters(self, cells.gates[kind], layer, false)
    if bidirectional then add_parameters(self, cells.gates[kind], layer, true) end
  end
  self:reset_parameters()
end

Recurrent.reset_parameters = cells.reset_parameters

-- The size of h: that of the projection, if there is one.
function Recurrent:_state_size()
  return self.proj_size > 0 and self.proj_size or self.hidden_size
end

local function weights(self)
  local list, names = {}, self._weights
  for i = 1, #names do list[i] = self[names[i]] end
  return list
end

local function check_state(self, name, state, count, batch, size)
  local shape = state.shape
  if #shape ~= 3 or shape[1] ~= count or shape[2] ~= batch or shape[3] ~= size then
    args.fail(("%s: the state %s must have shape (%d, %d, %d), got (%s)"):format(
      getmetatable(self).__name, name, count, batch, size, table.concat(shape, ", ")))
  end
end

-- The input with a batch, how many sequences it has, and whether it was one without a batch.
local function check_input(self, x)
  local n, name = x:dim(), getmetatable(self).__name
  if n ~= 2 and n ~= 3 then
    args.fail(("%s: expected an input of 2 or 3 dims, got %d"):format(name, n))
  end
  if x:size(-1) ~= self.input_size then
    args.fail(("%s: the last dim of the input must be input_size %d, got %d"):format(
      name, self.input_size, x:size(-1)))
  end
  local batch_dim = self.batch_first and 1 or 2
  if n == 2 then x = x:unsqueeze(batch_dim) end
  if x:size(3 - batch_dim) == 0 then args.fail(name .. ": the sequence has no time steps") end
  return x, x:size(batch_dim), n == 2
end

local function initial_state(self, x, batch, given, name, single, size)
  local count = self.num_layers * (self.bidirectional and 2 or 1)
  if not given then
    return moth.zeros(count, batch, size, { dtype = x.dtype, device = x.device })
  end
  if single then given = given:unsqueeze(2) end
  check_state(self, name, given, count, batch, size)
  return given
end

-- Output and last state without the batch that check_input put in.
local function finish(self, single, y, h, c)
  if not single then return y, h, c end
  return y:squeeze(self.batch_first and 1 or 2), h:squeeze(2), c and c:squeeze(2)
end

local options = "input_size, hidden_size, num_layers=1, %sbias=true, batch_first=false, "
  .. "dropout=0.0, bidirectional=false%s, device=nil, dtype=nil"

--- Plain recurrent network with tanh or relu. Gives output, last state.
---@class moth.nn.RNN : moth.nn.Module
M.RNN = class.class("RNN", Recurrent, options:format("nonlinearity='tanh', ", ""))
function M.RNN:init(input_size, hidden_size, num_layers, nonlinearity, bias, batch_first, dropout,
                    bidirectional)
  self.nonlinearity = cells.check_nonlinearity("RNN", nonlinearity)
  setup(self, "rnn", input_size, hidden_size, num_layers, bias, batch_first, dropout,
    bidirectional)
end
function M.RNN:forward(x, h)
  local xs, batch, single = check_input(self, x)
  h = initial_state(self, xs, batch, h, "h", single, self.hidden_size)
  return finish(self, single, moth.rnn(xs, h, weights(self), self.bias, self.num_layers,
    self.dropout, self.training, self.bidirectional, self.batch_first, self.nonlinearity))
end

--- Gated recurrent units. Gives output, last state.
---@class moth.nn.GRU : moth.nn.Module
M.GRU = class.class("GRU", Recurrent, options:format("", ""))
function M.GRU:init(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
  setup(self, "gru", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
end
function M.GRU:forward(x, h)
  local xs, batch, single = check_input(self, x)
  h = initial_state(self, xs, batch, h, "h", single, self.hidden_size)
  return finish(self, single, moth.gru(xs, h, weights(self), self.bias, self.num_layers,
    self.dropout, self.training, self.bidirectional, self.batch_first))
end

--- Long short-term memory. Gives output, {last h, last c}.
---@class moth.nn.LSTM : moth.nn.Module
M.LSTM = class.class("LSTM", Recurrent, options:format("", ", proj_size=0"))
function M.LSTM:init(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
                     proj_size)
  setup(self, "lstm", input_size, hidden_size, num_layers, bias, batch_first, dropout,
    bidirectional, proj_size)
end
function M.LSTM:forward(x, state)
  local xs, batch, single = check_input(self, x)
  local h = initial_state(self, xs, batch, state and state[1], "h", single, self:_state_size())
  local c = initial_state(self, xs, batch, state and state[2], "c", single, self.hidden_size)
  local y
  y, h, c = finish(self, single, moth.lstm(xs, { h, c }, weights(self), self.bias, self.num_layers,
    self.dropout, self.training, self.bidirectional, self.batch_first))
  return y, { h, c }
end

return M
