--- One step of a recurrent network: RNNCell, LSTMCell, GRUCell; and what the layers over whole
--- sequences (recurrent.lua) share with them. Gates lie in PyTorch's order: i f g o
--- for LSTM, r z n for GRU.
local moth = require "moth"
local args = require "moth.args"
local class = require "moth.nn.class"
local init = require "moth.nn.initializers"

local M = {}
local Parameter = class.Parameter

--- How many gates each kind has.
M.gates = { rnn = 1, lstm = 4, gru = 3 }

--- Raises unless a plain RNN has such a nonlinearity.
function M.check_nonlinearity(name, nonlinearity)
  if nonlinearity ~= "tanh" and nonlinearity ~= "relu" then
    args.fail(("%s: nonlinearity must be 'tanh' or 'relu', got '%s'"):format(
      name, tostring(nonlinearity)))
  end
  return nonlinearity
end

--- Draws all parameters of a recurrent module: uniform within 1/sqrt(hidden_size).
function M.reset_parameters(self)
  local bound = self.hidden_size > 0 and 1 / math.sqrt(self.hidden_size) or 0.0
  for _, p in ipairs(self:parameters()) do init.uniform_(p, -bound, bound) end
end

local function setup(self, kind, input_size, hidden_size, bias)
  local rows = M.gates[kind] * hidden_size
  self.input_size, self.hidden_size = input_size, hidden_size
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

local options = "input_size, hidden_size, bias=true, %sdevice=nil, dtype=nil"

--- h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu. x: (N, input_size) or (input_size).
---@class moth.nn.RNNCell : moth.nn.Module
M.RNNCell = class.class("RNNCell", nil, options:format("nonlinearity='tanh', "))
function M.RNNCell:init(input_size, hidden_size, bias, nonlinearity)
  self.nonlinearity = M.check_nonlinearity("RNNCell", nonlinearity)
  setup(self, "rnn", input_size, hidden_size, bias)
end
function M.RNNCell:forward(x, h)
  local step = self.nonlinearity == "tanh" and moth.rnn_tanh_cell or moth.rnn_relu_cell
  return step(x, h or zero_state(self, x), self.weight_ih, self.weight_hh, self.bias_ih,
    self.bias_hh)
end

--- Gated recurrent unit, one step.
---@class moth.nn.GRUCell : moth.nn.Module
M.GRUCell = class.class("GRUCell", nil, options:format(""))
function M.GRUCell:init(input_size, hidden_size, bias)
  setup(self, "gru", input_size, hidden_size, bias)
end
function M.GRUCell:forward(x, h)
  return moth.gru_cell(x, h or zero_state(self, x), self.weight_ih, self.weight_hh, self.bias_ih,
    self.bias_hh)
end

--- Long short-term memory, one step.
---
---     local h, c = cell(x)
---     h, c = cell(x2, { h, c })
---@class moth.nn.LSTMCell : moth.nn.Module
M.LSTMCell = class.class("LSTMCell", nil, options:format(""))
function M.LSTMCell:init(input_size, hidden_size, bias)
  setup(self, "lstm", input_size, hidden_size, bias)
end
function M.LSTMCell:forward(x, state)
  if not state then
    local zero = zero_state(self, x)
    state = { zero, zero }
  end
  return moth.lstm_cell(x, state, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
end

return M
