--- One step of a recurrent network: RNNCell, LSTMCell, GRUCell, and the steps themselves, which the
--- layers over whole sequences share (recurrent.lua).
---
--- A step takes the product of the input with its weights (for a sequence computed at once for all
--- times) and the state before. Gates lie behind each other in the order of PyTorch: i f g o for
--- LSTM, r z n for GRU.
local moth = require "moth"
local args = require "moth.args"
local class = require "moth.nn.class"
local init = require "moth.nn.initializers"

local M = {}
local Parameter = class.Parameter
local linear = moth.linear

--- Steps by kind: step(projected input, h, w_hh, b_hh, c) gives the new h (and c).
M.step = {}

function M.step.rnn_tanh(gx, h, w_hh, b_hh) return (gx + linear(h, w_hh, b_hh)):tanh() end

function M.step.rnn_relu(gx, h, w_hh, b_hh) return (gx + linear(h, w_hh, b_hh)):relu() end

function M.step.lstm(gx, h, w_hh, b_hh, c)
  local gates = (gx + linear(h, w_hh, b_hh)):chunk(4, -1)
  local kept = gates[2]:sigmoid() * c
  c = kept + gates[1]:sigmoid() * gates[3]:tanh()
  return gates[4]:sigmoid() * c:tanh(), c
end

function M.step.gru(gx, h, w_hh, b_hh)
  local x, y = gx:chunk(3, -1), linear(h, w_hh, b_hh):chunk(3, -1)
  local reset = (x[1] + y[1]):sigmoid()
  local update = (x[2] + y[2]):sigmoid()
  local new = (x[3] + reset * y[3]):tanh()
  return new + update * (h - new)
end

--- How many gates each kind has.
M.gates = { rnn_tanh = 1, rnn_relu = 1, lstm = 4, gru = 3 }

--- The kind of a plain RNN for a nonlinearity.
function M.rnn_kind(name, nonlinearity)
  if nonlinearity ~= "tanh" and nonlinearity ~= "relu" then
    args.fail(("%s: nonlinearity must be 'tanh' or 'relu', got '%s'"):format(
      name, tostring(nonlinearity)))
  end
  return "rnn_" .. nonlinearity
end

--- Draws all parameters of a recurrent module: uniform within 1/sqrt(hidden_size).
function M.reset_parameters(self)
  local bound = self.hidden_size > 0 and 1 / math.sqrt(self.hidden_size) or 0.0
  for _, p in ipairs(self:parameters()) do init.uniform_(p, -bound, bound) end
end

local function cell_parameters(self, kind, input_size, hidden_size, bias)
  local rows = M.gates[kind] * hidden_size
  self._kind, self.input_size, self.hidden_size = kind, input_size, hidden_size
  self.weight_ih = Parameter(moth.empty(rows, input_size))
  self.weight_hh = Parameter(moth.empty(rows, hidden_size))
  if bias then
    self.bias_ih = Parameter(moth.empty(rows))
    self.bias_hh = Parameter(moth.empty(rows))
  end
  M.reset_parameters(self)
end

local function zero_state(self, x)
  local shape = x.shape
  shape[#shape] = self.hidden_size
  return moth.zeros(shape, { dtype = x.dtype, device = x.device })
end

local function run_cell(self, x, h, c)
  local gx = linear(x, self.weight_ih, self.bias_ih)
  return M.step[self._kind](gx, h, self.weight_hh, self.bias_hh, c)
end

local options = "input_size, hidden_size, bias=true, %sdevice=nil, dtype=nil"

--- h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu. x: (N, input_size) or (input_size).
---@class moth.nn.RNNCell : moth.nn.Module
M.RNNCell = class.class("RNNCell", nil, options:format("nonlinearity='tanh', "))
function M.RNNCell:init(input_size, hidden_size, bias, nonlinearity)
  cell_parameters(self, M.rnn_kind("RNNCell", nonlinearity), input_size, hidden_size, bias)
end
function M.RNNCell:forward(x, h) return run_cell(self, x, h or zero_state(self, x)) end

--- Gated recurrent unit, one step.
---@class moth.nn.GRUCell : moth.nn.Module
M.GRUCell = class.class("GRUCell", nil, options:format(""))
function M.GRUCell:init(input_size, hidden_size, bias)
  cell_parameters(self, "gru", input_size, hidden_size, bias)
end
function M.GRUCell:forward(x, h) return run_cell(self, x, h or zero_state(self, x)) end

--- Long short-term memory, one step.
---
---     local h, c = cell(x)
---     h, c = cell(x2, { h, c })
---@class moth.nn.LSTMCell : moth.nn.Module
M.LSTMCell = class.class("LSTMCell", nil, options:format(""))
function M.LSTMCell:init(input_size, hidden_size, bias)
  cell_parameters(self, "lstm", input_size, hidden_size, bias)
end
function M.LSTMCell:forward(x, state)
  local h, c
  if state then h, c = state[1], state[2] else h = zero_state(self, x) end
  return run_cell(self, x, h, c or h)
end

return M
