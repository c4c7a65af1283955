--- RNN, LSTM and GRU over whole sequences: several layers, both directions, dropout between layers.
---
--- Inputs are (T, N, input_size), (N, T, input_size) with batch_first, or (T, input_size) for one
--- sequence. States are (layers * directions, N, hidden_size). Parameters are named as in PyTorch:
--- weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, then those of the reverse direction and of
--- the next layers.
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
local linear = moth.linear

local Recurrent = class.class("Recurrent")

local function suffix(layer, reverse)
  return "_l" .. (layer - 1) .. (reverse and "_reverse" or "")
end

local function add_parameters(self, layer, reverse)
  local rows = cells.gates[self._kind] * self.hidden_size
  local state_size = self.proj_size > 0 and self.proj_size or self.hidden_size
  local directions = self.bidirectional and 2 or 1
  local inputs = layer == 1 and self.input_size or state_size * directions
  local tail = suffix(layer, reverse)
  self["weight_ih" .. tail] = Parameter(moth.empty(rows, inputs))
  self["weight_hh" .. tail] = Parameter(moth.empty(rows, state_size))
  if self.bias then
    self["bias_ih" .. tail] = Parameter(moth.empty(rows))
    self["bias_hh" .. tail] = Parameter(moth.empty(rows))
  end
  if self.proj_size > 0 then
    self["weight_hr" .. tail] = Parameter(moth.empty(self.proj_size, self.hidden_size))
  end
end

-- What all three share after their own arguments are read.
local function setup(self, kind, input_size, hidden_size, num_layers, bias, batch_first, dropout,
                     bidirectional, proj_size)
  self._kind, self.input_size, self.hidden_size = kind, input_size, hidden_size
  self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
  self.dropout, self.bidirectional, self.proj_size = dropout, bidirectional, proj_size or 0
  if self.proj_size >= hidden_size then
    args.fail("LSTM: proj_size must be smaller than hidden_size")
  end
  for layer = 1, num_layers do
    add_parameters(self, layer, false)
    if bidirectional then add_parameters(self, layer, true) end
  end
  self:reset_parameters()
end

Recurrent.reset_parameters = cells.reset_parameters

-- One direction of one layer: outputs by time as a list, and the last state.
local function run_direction(self, xs, layer, reverse, h, c)
  local tail = suffix(layer, reverse)
  local step, w_hr = cells.step[self._kind], self["weight_hr" .. tail]
  local w_hh, b_hh = self["weight_hh" .. tail], self["bias_hh" .. tail]
  local projected = linear(xs, self["weight_ih" .. tail], self["bias_ih" .. tail]):unbind(1)
  local n, outputs = #projected, {}
  for i = 1, n do
    local t = reverse and n + 1 - i or i
    h, c = step(projected[t], h, w_hh, b_hh, c)
    if w_hr then h = linear(h, w_hr) end
    outputs[t] = h
  end
  return moth.stack(outputs, 1), h, c
end

local function run_layer(self, xs, layer, h0, c0, last_h, last_c)
  local directions = self.bidirectional and 2 or 1
  local outputs = {}
  for d = 1, directions do
    local at = (layer - 1) * directions + d
    local y, h, c = run_direction(self, xs, layer, d == 2, h0:select(1, at),
      c0 and c0:select(1, at))
    outputs[d], last_h[at], last_c[at] = y, h, c
  end
  if directions == 1 then return outputs[1] end
  return moth.cat(outputs, -1)
end

local function check_state(self, name, state, count, batch, size)
  local shape = state.shape
  if #shape ~= 3 or shape[1] ~= count or shape[2] ~= batch or shape[3] ~= size then
    args.fail(("%s: the state %s must have shape (%d, %d, %d), got (%s)"):format(
      getmetatable(self).__name, name, count, batch, size, table.concat(shape, ", ")))
  end
end

-- Brings the input to (T, N, size); returns whether it was one sequence.
local function time_first(self, x)
  local n = x:dim()
  if n ~= 2 and n ~= 3 then
    args.fail(("%s: expected an input of 2 or 3 dims, got %d"):format(getmetatable(self).__name, n))
  end
  if x:size(-1) ~= self.input_size then
    args.fail(("%s: the last dim of the input must be input_size %d, got %d"):format(
      getmetatable(self).__name, self.input_size, x:size(-1)))
  end
  if x:size(n == 3 and self.batch_first and 2 or 1) == 0 then
    args.fail(getmetatable(self).__name .. ": the sequence has no time steps")
  end
  if n == 2 then return x:unsqueeze(2), true end
  return self.batch_first and x:transpose(1, 2) or x, false
end

local function initial_state(self, xs, given, name, single, size)
  local count, batch = self.num_layers * (self.bidirectional and 2 or 1), xs:size(2)
  if not given then
    return moth.zeros(count, batch, size, { dtype = xs.dtype, device = xs.device })
  end
  if single then given = given:unsqueeze(2) end
  check_state(self, name, given, count, batch, size)
  return given
end

-- The whole: output, last h, last c.
local function run(self, x, h0, c0)
  local xs, single = time_first(self, x)
  local lstm = self._kind == "lstm"
  local state_size = self.proj_size > 0 and self.proj_size or self.hidden_size
  h0 = initial_state(self, xs, h0, "h", single, state_size)
  c0 = lstm and initial_state(self, xs, c0, "c", single, self.hidden_size) or nil
  local last_h, last_c = {}, {}
  for layer = 1, self.num_layers do
    xs = run_layer(self, xs, layer, h0, c0, last_h, last_c)
    if self.training and self.dropout > 0 and layer < self.num_layers then
      xs = moth.dropout(xs, self.dropout, true)
    end
  end
  local h, c = moth.stack(last_h, 1), lstm and moth.stack(last_c, 1) or nil
  if single then return xs:squeeze(2), h:squeeze(2), c and c:squeeze(2) end
  return self.batch_first and xs:transpose(1, 2) or xs, h, c
end

local options = "input_size, hidden_size, num_layers=1, %sbias=true, batch_first=false, "
  .. "dropout=0.0, bidirectional=false%s, device=nil, dtype=nil"

--- Plain recurrent network with tanh or relu. Gives output, last state.
---@class moth.nn.RNN : moth.nn.Module
M.RNN = class.class("RNN", Recurrent, options:format("nonlinearity='tanh', ", ""))
function M.RNN:init(input_size, hidden_size, num_layers, nonlinearity, bias, batch_first, dropout,
                    bidirectional)
  setup(self, cells.rnn_kind("RNN", nonlinearity), input_size, hidden_size, num_layers, bias,
    batch_first, dropout, bidirectional)
end
function M.RNN:forward(x, h0)
  local y, h = run(self, x, h0)
  return y, h
end

--- Gated recurrent units. Gives output, last state.
---@class moth.nn.GRU : moth.nn.Module
M.GRU = class.class("GRU", Recurrent, options:format("", ""))
function M.GRU:init(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
  setup(self, "gru", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
end
M.GRU.forward = M.RNN.forward

--- Long short-term memory. Gives output, {last h, last c}.
---@class moth.nn.LSTM : moth.nn.Module
M.LSTM = class.class("LSTM", Recurrent, options:format("", ", proj_size=0"))
function M.LSTM:init(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
                     proj_size)
  setup(self, "lstm", input_size, hidden_size, num_layers, bias, batch_first, dropout,
    bidirectional, proj_size)
end
function M.LSTM:forward(x, state)
  local y, h, c = run(self, x, state and state[1], state and state[2])
  return y, { h, c }
end

return M
