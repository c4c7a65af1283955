--- Losses as modules. Each row names the class, the function, how many tensors it compares and its
--- options in the order in which the function takes them; the classes are made from the rows.
---
---     local criterion = nn.CrossEntropyLoss { label_smoothing = 0.1 }
---     local loss = criterion(logits, targets)          -- targets are 1-based class numbers
---
--- A `weight` or `pos_weight` is a buffer: it moves with the module and is saved.
local class = require "moth.nn.class"
local F = require "moth.nn.functional"

local M = {}

local rows = {
  { "L1Loss", "l1_loss", 2, "reduction='mean'" },
  { "MSELoss", "mse_loss", 2, "reduction='mean'" },
  { "SmoothL1Loss", "smooth_l1_loss", 2, "reduction='mean', beta=1.0" },
  { "HuberLoss", "huber_loss", 2, "reduction='mean', delta=1.0" },
  { "NLLLoss", "nll_loss", 2, "weight=nil, ignore_index=-100, reduction='mean'" },
  { "CrossEntropyLoss", "cross_entropy", 2,
    "weight=nil, ignore_index=-100, reduction='mean', label_smoothing=0.0" },
  { "BCELoss", "binary_cross_entropy", 2, "weight=nil, reduction='mean'" },
  { "BCEWithLogitsLoss", "binary_cross_entropy_with_logits", 2,
    "weight=nil, reduction='mean', pos_weight=nil" },
  { "KLDivLoss", "kl_div", 2, "reduction='mean', log_target=false" },
  { "PoissonNLLLoss", "poisson_nll_loss", 2,
    "log_input=true, full=false, eps=1e-8, reduction='mean'" },
  { "GaussianNLLLoss", "gaussian_nll_loss", 3, "full=false, eps=1e-6, reduction='mean'" },
  { "HingeEmbeddingLoss", "hinge_embedding_loss", 2, "margin=1.0, reduction='mean'" },
  { "MarginRankingLoss", "margin_ranking_loss", 3, "margin=0.0, reduction='mean'" },
  { "CosineEmbeddingLoss", "cosine_embedding_loss", 3, "margin=0.0, reduction='mean'" },
  { "TripletMarginLoss", "triplet_margin_loss", 3,
    "margin=1.0, p=2.0, eps=1e-6, swap=false, reduction='mean'" },
  { "SoftMarginLoss", "soft_margin_loss", 2, "reduction='mean'" },
  { "MultiLabelSoftMarginLoss", "multilabel_soft_margin_loss", 2, "weight=nil, reduction='mean'" },
  { "MultiMarginLoss", "multi_margin_loss", 2, "p=1, margin=1.0, weight=nil, reduction='mean'" },
  { "MultiLabelMarginLoss", "multilabel_margin_loss", 2, "reduction='mean'" },
  { "CTCLoss", "ctc_loss", 4, "blank=1, reduction='mean', zero_infinity=false" },
}

-- The options of a loss as values, for any number of them up to five.
local function options(keys)
  local a, b, c, d, e = table.unpack(keys)
  if #keys == 1 then return function(self) return self[a] end end
  if #keys == 2 then return function(self) return self[a], self[b] end end
  if #keys == 3 then return function(self) return self[a], self[b], self[c] end end
  if #keys == 4 then return function(self) return self[a], self[b], self[c], self[d] end end
  return function(self) return self[a], self[b], self[c], self[d], self[e] end
end

local function forward(f, tensors, get)
  if tensors == 2 then return function(self, x, y) return f(x, y, get(self)) end end
  if tensors == 3 then return function(self, x, y, z) return f(x, y, z, get(self)) end end
  return function(self, x, y, z, w) return f(x, y, z, w, get(self)) end
end

local function define(name, op, tensors, signature)
  local f = F[op]
  if not f then return end
  local Loss = class.class(name, nil, signature)
  local keys = Loss.signature.names
  function Loss:init(...)
    local values = { ... }
    for i, key in ipairs(keys) do
      if key == "weight" or key == "pos_weight" then
        self:register_buffer(key, values[i])
      else
        self[key] = values[i]
      end
    end
  end
  Loss.forward = forward(f, tensors, options(keys))
  M[name] = Loss
end

for _, row in ipairs(rows) do define(table.unpack(row)) end

return M
