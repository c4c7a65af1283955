--- Encoder and decoder layers of a transformer, and stacks of them. Shapes and masks as for
--- MultiheadAttention.
local moth = require "moth"
local args = require "moth.args"
local class = require "moth.nn.class"
local attention = require "moth.nn.attention"
local container = require "moth.nn.container"
local layers = require "moth.nn.layers"
local linear = require "moth.nn.linear"
local norm = require "moth.nn.norm"

local M = {}

local options = "d_model, nhead, dim_feedforward=2048, dropout=0.1, activation='relu', "
  .. "layer_norm_eps=1e-5, batch_first=false, norm_first=false, device=nil, dtype=nil"

local function activation_function(activation)
  if type(activation) == "function" or type(activation) == "table" then return activation end
  if activation ~= "relu" and activation ~= "gelu" then
    args.fail(("activation must be 'relu', 'gelu' or a function, got '%s'"):format(
      tostring(activation)))
  end
  return moth[activation]
end

-- The parts that both kinds of layer have, in PyTorch's order of names.
local function feed_forward(self, d_model, hidden, dropout, activation)
  self.linear1 = linear.Linear(d_model, hidden)
  self.dropout = layers.Dropout(dropout)
  self.linear2 = linear.Linear(hidden, d_model)
  self._activation = activation_function(activation)
end

local function norms_and_dropouts(self, count, d_model, eps, dropout)
  for i = 1, count do self["norm" .. i] = norm.LayerNorm(d_model, eps) end
  for i = 1, count do self["dropout" .. i] = layers.Dropout(dropout) end
end

local function run_feed_forward(self, x)
  return self.linear2(self.dropout(self._activation(self.linear1(x))))
end

-- Adds a part to x, normalising before the part or after the sum.
local function residual(self, x, layer_norm, part)
  if self.norm_first then return x + part(layer_norm(x)) end
  return layer_norm(x + part(x))
end

-- A part that attends from x to memory (nil: to x itself).
local function attending(attn, dropout, memory, attn_mask, padding_mask)
  local masks = { attn_mask = attn_mask, key_padding_mask = padding_mask, need_weights = false }
  return function(x)
    local source = memory or x
    return dropout((attn(x, source, source, masks)))
  end
end

--- Self-attention, then two linear layers; each with a residual and a layer norm.
---@class moth.nn.TransformerEncoderLayer : moth.nn.Module
M.TransformerEncoderLayer = class.class("TransformerEncoderLayer", nil, options)
local Encoder = M.TransformerEncoderLayer

function Encoder:init(d_model, nhead, hidden, dropout, activation, eps, batch_first, norm_first)
  self.self_attn = attention.MultiheadAttention(d_model, nhead, dropout,
    { batch_first = batch_first })
  feed_forward(self, d_model, hidden, dropout, activation)
  self.norm_first = norm_first
  norms_and_dropouts(self, 2, d_model, eps, dropout)
end

local encode = args.parse("TransformerEncoderLayer",
  "src, src_mask=nil, src_key_padding_mask=nil")

function Encoder:forward(...)
  local x, mask, padding = encode:resolve(...)
  x = residual(self, x, self.norm1, attending(self.self_attn, self.dropout1, nil, mask, padding))
  return residual(self, x, self.norm2, function(y)
    return self.dropout2(run_feed_forward(self, y))
  end)
end

--- Self-attention, attention to the encoder's output, then two linear layers.
---@class moth.nn.TransformerDecoderLayer : moth.nn.Module
M.TransformerDecoderLayer = class.class("TransformerDecoderLayer", nil, options)
local Decoder = M.TransformerDecoderLayer

function Decoder:init(d_model, nhead, hidden, dropout, activation, eps, batch_first, norm_first)
  local attend = { batch_first = batch_first }
  self.self_attn = attention.MultiheadAttention(d_model, nhead, dropout, attend)
  self.multihead_attn = attention.MultiheadAttention(d_model, nhead, dropout, attend)
  feed_forward(self, d_model, hidden, dropout, activation)
  self.norm_first = norm_first
  norms_and_dropouts(self, 3, d_model, eps, dropout)
end

local decode = args.parse("TransformerDecoderLayer", "tgt, memory, tgt_mask=nil, memory_mask=nil, "
  .. "tgt_key_padding_mask=nil, memory_key_padding_mask=nil")

function Decoder:forward(...)
  local x, memory, mask, memory_mask, padding, memory_padding = decode:resolve(...)
  x = residual(self, x, self.norm1, attending(self.self_attn, self.dropout1, nil, mask, padding))
  x = residual(self, x, self.norm2, attending(self.multihead_attn, self.dropout2, memory,
    memory_mask, memory_padding))
  return residual(self, x, self.norm3, function(y)
    return self.dropout3(run_feed_forward(self, y))
  end)
end

-- A stack of layers that `make(i)` makes, each called with the same further arguments.
local function define_stack(name)
  local Stack = class.class(name)
  function Stack:init(make, num_layers, final_norm)
    if type(make) ~= "function" then
      args.fail(name .. ": the first argument must be a function that makes a layer")
    end
    self.layers = container.ModuleList()
    for i = 1, num_layers do self.layers:append(make(i)) end
    self.norm = final_norm
  end
  function Stack:forward(x, ...)
    for _, layer in ipairs(self.layers) do x = layer(x, ...) end
    return self.norm and self.norm(x) or x
  end
  M[name] = Stack
end

--- Several encoder layers: `nn.TransformerEncoder(function() return layer end, 6)`. The function
--- makes one layer a call, so that no two share parameters.
define_stack("TransformerEncoder")
--- Several decoder layers, made in the same way.
define_stack("TransformerDecoder")

return M
