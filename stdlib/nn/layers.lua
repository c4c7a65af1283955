--- Small layers: dropout, embedding, reshaping, padding and resizing.
local moth = require "moth"
local args = require "moth.args"
local class = require "moth.nn.class"
local init = require "moth.nn.initializers"
local F = require "moth.nn.functional"

local M = {}
local Module = class.Module

-- In training zeroes parts with probability p and scales the rest by 1/(1-p), else does nothing.
local function define_dropout(name, op, default)
  local f = F[op]
  if not f then return end
  local Dropout = class.class(name, Module, default .. ", inplace=false")
  function Dropout:init(p, inplace)
    if p < 0 or p > 1 then args.fail(("%s: p must be from 0 to 1, got %g"):format(name, p)) end
    self.p, self.inplace = p, inplace
    self._f = inplace and moth[op .. "_"] or f
  end
  function Dropout:forward(x)
    if not self.training then return x end
    return self._f(x, self.p, true)
  end
  M[name] = Dropout
end
define_dropout("Dropout", "dropout", "p=0.5")
define_dropout("Dropout1d", "dropout1d", "p=0.5")
define_dropout("Dropout2d", "dropout2d", "p=0.5")
define_dropout("Dropout3d", "dropout3d", "p=0.5")
define_dropout("AlphaDropout", "alpha_dropout", "p=0.5")

--- Rows of a learned table by number. weight: (num_embeddings, embedding_dim); numbers are 1-based.
--- The row `padding_idx` starts at zero and gets no gradient.
---
---     local embed = nn.Embedding(1000, 64)
---     embed(moth.tensor { 1, 5, 1000 }).shape     --> {3, 64}
---@class moth.nn.Embedding : moth.nn.Module
M.Embedding = class.class("Embedding", Module, "num_embeddings, embedding_dim, padding_idx=nil, "
  .. "max_norm=nil, norm_type=2.0, scale_grad_by_freq=false, sparse=false, device=nil, dtype=nil")

local function check_padding(self, padding_idx)
  local n = self.num_embeddings
  if padding_idx and (padding_idx == 0 or math.abs(padding_idx) > n) then
    args.fail(("%s: padding_idx must be from 1 to %d, got %d"):format(
      getmetatable(self).__name, n, padding_idx))
  end
  return padding_idx and padding_idx < 0 and n + 1 + padding_idx or padding_idx
end

function M.Embedding:init(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type,
                          scale_grad_by_freq, sparse)
  self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
  self.padding_idx = check_padding(self, padding_idx)
  self.max_norm, self.norm_type = max_norm, norm_type
  self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
  self.weight = class.Parameter(moth.empty(num_embeddings, embedding_dim))
  self:reset_parameters()
end

function M.Embedding:reset_parameters()
  init.normal_(self.weight)
  if self.padding_idx then
    moth.no_grad(function() self.weight:select(1, self.padding_idx):zero_() end)
  end
end

function M.Embedding:forward(x)
  return moth.embedding(x, self.weight, self.padding_idx, self.max_norm, self.norm_type,
    self.scale_grad_by_freq, self.sparse)
end

--- An embedding with given rows, which are not trained unless freeze is false.
---@param weight moth.Tensor
---@param options? { freeze: boolean, padding_idx: integer }
function M.Embedding.from_pretrained(weight, options)
  options = options or {}
  local embed = M.Embedding(weight:size(1), weight:size(2), { padding_idx = options.padding_idx })
  embed.weight = class.Parameter(weight:detach(), options.freeze == false)
  return embed
end

--- Sums, means or maxima of bags of rows: each row of a matrix of numbers is a bag, or `offsets`
--- says where in a vector the bags start.
---@class moth.nn.EmbeddingBag : moth.nn.Module
M.EmbeddingBag = class.class("EmbeddingBag", Module, "num_embeddings, embedding_dim, "
  .. "max_norm=nil, norm_type=2.0, scale_grad_by_freq=false, mode='mean', sparse=false, "
  .. "include_last_offset=false, padding_idx=nil, device=nil, dtype=nil")

function M.EmbeddingBag:init(num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq,
                             mode, sparse, include_last_offset, padding_idx)
  M.Embedding.init(self, num_embeddings, embedding_dim, padding_idx, max_norm, norm_type,
    scale_grad_by_freq, sparse)
  self.mode, self.include_last_offset = mode, include_last_offset
end

M.EmbeddingBag.reset_parameters = M.Embedding.reset_parameters

function M.EmbeddingBag:forward(x, offsets, weights)
  return moth.embedding_bag(x, self.weight, offsets, self.max_norm, self.norm_type,
    self.scale_grad_by_freq, self.mode, self.sparse, weights, self.include_last_offset,
    self.padding_idx)
end

--- Joins the dims start_dim..end_dim into one; by default all but the batch.
---@class moth.nn.Flatten : moth.nn.Module
M.Flatten = class.class("Flatten", Module, "start_dim=2, end_dim=-1")
function M.Flatten:init(start_dim, end_dim) self.start_dim, self.end_dim = start_dim, end_dim end
function M.Flatten:forward(x) return x:flatten(self.start_dim, self.end_dim) end

--- Splits one dim into several sizes.
---@class moth.nn.Unflatten : moth.nn.Module
M.Unflatten = class.class("Unflatten", Module, "dim, unflattened_size")
function M.Unflatten:init(dim, sizes) self.dim, self.unflattened_size = dim, sizes end
function M.Unflatten:forward(x) return x:unflatten(self.dim, self.unflattened_size) end

-- (N, C, ...) padded by a number or by {left, right, top, bottom, ...}.
local function define_padding(name, n, mode, value)
  local Pad = class.class(name, Module, value and "padding, value" or "padding")
  function Pad:init(padding, fill)
    if type(padding) == "number" then
      local list = {}
      for i = 1, 2 * n do list[i] = padding end
      padding = list
    end
    self.padding, self.value = padding, fill
  end
  function Pad:forward(x) return moth.pad(x, self.padding, mode, self.value) end
  M[name] = Pad
end
for n = 1, 3 do
  define_padding(("ZeroPad%dd"):format(n), n, "constant")
  define_padding(("ConstantPad%dd"):format(n), n, "constant", true)
  define_padding(("ReflectionPad%dd"):format(n), n, "reflect")
  define_padding(("ReplicationPad%dd"):format(n), n, "replicate")
  define_padding(("CircularPad%dd"):format(n), n, "circular")
end

--- Resizes (N, C, ...) to `size` or by `scale_factor`.
---@class moth.nn.Upsample : moth.nn.Module
M.Upsample = class.class("Upsample", Module,
  "size=nil, scale_factor=nil, mode='nearest', align_corners=nil")
function M.Upsample:init(size, scale_factor, mode, align_corners)
  self.size, self.scale_factor = size, scale_factor
  self.mode, self.align_corners = mode, align_corners
end
function M.Upsample:forward(x)
  return moth.interpolate(x, self.size, self.scale_factor, self.mode, self.align_corners)
end

local function define_shuffle(name, op, key)
  if not F[op] then return end
  local Shuffle = class.class(name, Module, key)
  function Shuffle:init(factor) self[key] = factor end
  function Shuffle:forward(x) return F[op](x, self[key]) end
  M[name] = Shuffle
end
define_shuffle("PixelShuffle", "pixel_shuffle", "upscale_factor")
define_shuffle("PixelUnshuffle", "pixel_unshuffle", "downscale_factor")

--- Cosine of the angle between vectors along a dim.
M.CosineSimilarity = class.class("CosineSimilarity", Module, "dim=2, eps=1e-8")
function M.CosineSimilarity:init(dim, eps) self.dim, self.eps = dim, eps end
function M.CosineSimilarity:forward(a, b) return F.cosine_similarity(a, b, self.dim, self.eps) end

--- Norm of a - b + eps along the last dim.
M.PairwiseDistance = class.class("PairwiseDistance", Module, "p=2.0, eps=1e-6, keepdim=false")
function M.PairwiseDistance:init(p, eps, keepdim)
  self.p, self.eps, self.keepdim = p, eps, keepdim
end
function M.PairwiseDistance:forward(a, b)
  return F.pairwise_distance(a, b, self.p, self.eps, self.keepdim)
end

return M
