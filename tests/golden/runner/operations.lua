--- Finding and calling an operation by the name that the manifests use.
local moth = require "moth"

local M = {}

local unpack = table.unpack

--- Raises what run.lua counts as "not there".
function M.missing(name) error({ missing = name }, 0) end

local prefixes = { "linalg", "special", "fft" }

local function in_module(name)
  for _, prefix in ipairs(prefixes) do
    local rest = name:match("^" .. prefix .. "_(.+)$")
    local module = rest and moth[prefix]
    if type(module) == "table" and module[rest] then return module[rest] end
  end
end

local function functional(name)
  local ok, f = pcall(function() return moth.nn.functional[name] end)
  return ok and f or nil
end

local sample = moth.zeros and moth.zeros(1)

local function method(name)
  local ok, f = pcall(function() return sample[name] end)
  if ok and type(f) == "function" then return f end
  if ok and f ~= nil then return function(x) return x[name] end end
end

--- The function of that name, nil if there is none.
function M.find(name)
  return moth[name] or in_module(name) or functional(name) or method(name)
end

-- Names that are no single function of Moth's.
local special = {}
M.special = special

local function must(name) return M.find(name) or M.missing(name) end

function special.index(x, items) return x[items] end

function special.index_put(x, items, v)
  local y = x:clone()
  y[items] = v
  return y
end

function special.index_put_accumulate(x, items, v)
  local f = must("index_put_")
  return f(x:clone(), items, v, { accumulate = true })
end

function special.im2col(...) return must("im2col")(...) end

function special.unfold(x, ...) return x:unfold(...) end

function special.rms_norm(x, ...)
  return must("rms_norm")(x, ...)
end

function special.svd_reconstruct(a)
  local u, s, vh = must("linalg_svd")(a, { full_matrices = false })
  return s, (u * s:unsqueeze(-2)):matmul(vh)
end

function special.qr_reconstruct(a)
  local q, r = must("linalg_qr")(a)
  return r:abs(), q:matmul(r)
end

function special.eigh_reconstruct(a)
  local w, v = must("linalg_eigh")(a)
  return w, (v * w:unsqueeze(-2)):matmul(v:transpose(-2, -1))
end

function special.linalg_lstsq(a, b) return (must("linalg_lstsq")(a, b)) end

function special.weight_norm(v, g, options)
  local dims = {}
  for d = 1, v:dim() do
    if d ~= options.dim then dims[#dims + 1] = d end
  end
  return v * (g / must("linalg_vector_norm")(v, 2, { dim = dims, keepdim = true }))
end

-- Initialisers on a new tensor of that shape.
for _, name in ipairs { "eye_", "dirac_", "ones_", "zeros_" } do
  special["init_" .. name] = function(shape)
    local f = moth.nn.init[name] or M.missing("nn.init." .. name)
    return f(moth.zeros(shape))
  end
end

-- The arguments are gradients of parameters made for the occasion.
local function with_gradients(...)
  local parameters, options = {}, nil
  for i, g in ipairs { ... } do
    if moth.is_tensor(g) then
      parameters[i] = moth.zeros_like(g):requires_grad_(true)
      parameters[i].grad = g:clone()
    else
      options = g
    end
  end
  return parameters, options
end

local function utility(name) return moth.nn.utils[name] or M.missing("nn.utils." .. name) end

function special.clip_grad_norm_(...)
  local parameters, options = with_gradients(...)
  local total = utility("clip_grad_norm_")(parameters, options)
  local results = { total }
  for i, p in ipairs(parameters) do results[i + 1] = p.grad end
  return table.unpack(results)
end

function special.clip_grad_value_(...)
  local parameters, options = with_gradients(...)
  utility("clip_grad_value_")(parameters, options.clip_value)
  return parameters[1].grad
end

-- Ways of asking a tensor about itself.
function special.shape(x) return x.shape end
function special.strides(x) return x:stride() end
function special.mT(x) return x.mT end
function special.size(x, ...) return x:size(...) end
function special.stride(x, ...) return x:stride(...) end
function special.requires_grad(x) return x.requires_grad end
function special.is_leaf(x) return x.is_leaf end

-- Calls `name` with a packed list of arguments and returns its results as a list.
function M.call(name, args)
  local results
  if special[name] then
    results = table.pack(special[name](unpack(args, 1, args.n)))
  elseif name:sub(-1) == "_" and moth.is_tensor(args[1]) then
    local f = args[1][name]
    if not f then M.missing(name) end
    results = table.pack(f(unpack(args, 1, args.n)))
  else
    results = table.pack(must(name)(unpack(args, 1, args.n)))
  end
  local first = results[1]
  if results.n == 1 and type(first) == "table" and moth.is_tensor(first[1]) then return first end
  return results
end

return M
