--- MultiheadAttention: queries look at keys and take a mixture of values, in several heads.
---
--- Inputs are (L, N, E), (N, L, E) with batch_first, or (L, E). In bool masks true means "left
--- out"; float masks are added to the scores.
local moth = require "moth"
local args = require "moth.args"
local class = require "moth.nn.class"
local init = require "moth.nn.initializers"
local linear_layers = require "moth.nn.linear"

local M = {}
local Parameter = class.Parameter
local linear = moth.linear

--- Gives the output, and the weights of attention (mean over the heads) unless need_weights=false.
---
---     local attn = nn.MultiheadAttention(64, 8, { batch_first = true })
---     local y, weights = attn(x, x, x, { attn_mask = mask })
---@class moth.nn.MultiheadAttention : moth.nn.Module
M.MultiheadAttention = class.class("MultiheadAttention", nil,
  "embed_dim, num_heads, dropout=0.0, bias=true, add_bias_kv=false, add_zero_attn=false, kdim=nil, "
  .. "vdim=nil, batch_first=false, device=nil, dtype=nil")
local Attention = M.MultiheadAttention

function Attention:init(embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim,
                        batch_first)
  if embed_dim % num_heads ~= 0 then
    args.fail(("MultiheadAttention: embed_dim (%d) must be divisible by num_heads (%d)"):format(
      embed_dim, num_heads))
  end
  self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
  self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
  self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
  self._packed = self.kdim == embed_dim and self.vdim == embed_dim
  if self._packed then
    self.in_proj_weight = Parameter(moth.empty(3 * embed_dim, embed_dim))
  else
    self.q_proj_weight = Parameter(moth.empty(embed_dim, embed_dim))
    self.k_proj_weight = Parameter(moth.empty(embed_dim, self.kdim))
    self.v_proj_weight = Parameter(moth.empty(embed_dim, self.vdim))
  end
  if bias then self.in_proj_bias = Parameter(moth.zeros(3 * embed_dim)) end
  if add_bias_kv then
    self.bias_k = Parameter(moth.empty(1, 1, embed_dim))
    self.bias_v = Parameter(moth.empty(1, 1, embed_dim))
  end
  self.out_proj = linear_layers.Linear(embed_dim, embed_dim, bias)
  self:reset_parameters()
end

function Attention:reset_parameters()
  for _, name in ipairs { "in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight" } do
    if self[name] then init.xavier_uniform_(self[name]) end
  end
  if self.in_proj_bias then
    init.zeros_(self.in_proj_bias)
    init.zeros_(self.out_proj.bias)
  end
  if self.bias_k then
    init.xavier_normal_(self.bias_k)
    init.xavier_normal_(self.bias_v)
  end
end

local function project(self, x, which)
  local e = self.embed_dim
  local first = (which - 1) * e + 1
  local weight = self._packed and self.in_proj_weight:narrow(1, first, e)
    or which == 1 and self.q_proj_weight or which == 2 and self.k_proj_weight or self.v_proj_weight
  local bias = self.in_proj_bias
  return linear(x, weight, bias and bias:narrow(1, first, e))
end

-- (L, N, E) of queries, keys and values; one product when all are the same tensor.
local function project_all(self, q, k, v)
  if self._packed and rawequal(q, k) and rawequal(k, v) then
    local parts = linear(q, self.in_proj_weight, self.in_proj_bias):chunk(3, -1)
    return parts[1], parts[2], parts[3]
  end
  return project(self, q, 1), project(self, k, 2), project(self, v, 3)
end

-- (L, N, E) to (N, heads, L, E / heads)
local function split_heads(self, x)
  local length, batch = x:size(1), x:size(2)
  return x:reshape(length, batch, self.num_heads, self.head_dim):permute(2, 3, 1, 4)
end

-- A mask as what is added to the scores, widened by the columns put behind the keys.
local function additive(mask, like, extra)
  if mask.dtype == "bool" or tostring(mask.dtype) == "bool" then
    mask = moth.zeros(mask.shape, { dtype = like.dtype, device = like.device })
      :masked_fill(mask, -math.huge)
  end
  if extra > 0 then mask = moth.pad(mask, { 0, extra }) end
  return mask
end

-- attn_mask (L, S) or (N * heads, L, S) and key_padding_mask (N, S), joined; nil: none.
local function join_masks(self, attn_mask, padding_mask, q, extra)
  local batch, heads = q:size(1), self.num_heads
  local mask
  if attn_mask then
    mask = additive(attn_mask, q, extra)
    if mask:dim() == 3 then mask = mask:reshape(batch, heads, mask:size(2), mask:size(3)) end
  end
  if padding_mask then
    if padding_mask:dim() == 1 then padding_mask = padding_mask:unsqueeze(1) end
    local padding = additive(padding_mask, q, extra)
    padding = padding:reshape(batch, 1, 1, padding:size(2))
    mask = mask and mask + padding or padding
  end
  return mask
end

-- Columns behind the keys: learned ones, then zeros.
local function extend_keys(self, k, v)
  local batch, extra = k:size(2), 0
  if self.bias_k then
    k = moth.cat({ k, self.bias_k:expand(1, batch, self.embed_dim) }, 1)
    v = moth.cat({ v, self.bias_v:expand(1, batch, self.embed_dim) }, 1)
    extra = extra + 1
  end
  if self.add_zero_attn then
    local zeros = moth.zeros(1, batch, self.embed_dim, { dtype = k.dtype, device = k.device })
    k, v = moth.cat({ k, zeros }, 1), moth.cat({ v, zeros }, 1)
    extra = extra + 1
  end
  return k, v, extra
end

local call = args.parse("MultiheadAttention",
  "query, key, value, key_padding_mask=nil, need_weights=true, attn_mask=nil, "
  .. "average_attn_weights=true")

-- The fused operation where the weights are not wanted.
local function attend(self, q, k, v, mask, need_weights)
  if not need_weights then
    local p = self.training and self.dropout or 0.0
    return moth.scaled_dot_product_attention(q, k, v, mask, p)
  end
  local scores = (q * (1 / math.sqrt(self.head_dim))):matmul(k:transpose(-2, -1))
  if mask then scores = scores + mask end
  local weights = scores:softmax(-1)
  if self.training and self.dropout > 0 then weights = moth.dropout(weights, self.dropout, true) end
  return weights:matmul(v), weights
end

function Attention:forward(...)
  local query, key, value, padding_mask, need_weights, attn_mask, average = call:resolve(...)
  local single = query:dim() == 2
  local swap = self.batch_first and not single
  local same_kv, same_qk = rawequal(key, value), rawequal(query, key)
  local function arrange(x)
    return single and x:unsqueeze(2) or swap and x:transpose(1, 2) or x
  end
  query = arrange(query)
  key = same_qk and query or arrange(key)
  value = same_kv and key or arrange(value)
  local q, k, v = project_all(self, query, key, value)
  local extra
  k, v, extra = extend_keys(self, k, v)
  q, k, v = split_heads(self, q), split_heads(self, k), split_heads(self, v)
  local mask = join_masks(self, attn_mask, padding_mask, q, extra)
  local mixed, weights = attend(self, q, k, v, mask, need_weights)
  local length, batch = query:size(1), query:size(2)
  local y = self.out_proj(mixed:permute(3, 1, 2, 4):reshape(length, batch, self.embed_dim))
  y = single and y:squeeze(2) or swap and y:transpose(1, 2) or y
  if not need_weights then return y end
  if average then weights = weights:mean(2) end
  return y, single and weights:squeeze(1) or weights
end

return M
