--- Adam and AdamW. They differ in weight decay alone: Adam adds it to the gradient, AdamW shrinks
--- the weights directly.
local moth = require "moth"
local optimizer = require "moth.optim.optimizer"

local adam_step, trim = moth._C._adam_step, optimizer.trim

local options = "lr=0.001, betas=nil, eps=1e-8, weight_decay=%s, amsgrad=false, maximize=false"

local function check(self, group)
  group.betas = group.betas or { 0.9, 0.999 }
  optimizer.check_range(self, group, "lr", 0)
  optimizer.check_range(self, group, "eps", 0)
  optimizer.check_range(self, group, "weight_decay", 0)
  for i = 1, 2 do
    local beta = group.betas[i]
    if type(beta) ~= "number" or not (beta >= 0 and beta < 1) then
      self._sig:fail(("betas[%d] must be at least 0 and below 1, got %s"):format(i, tostring(beta)))
    end
  end
end

local function fresh(p, amsgrad)
  return {
    step = 0,
    exp_avg = moth.zeros_like(p),
    exp_avg_sq = moth.zeros_like(p),
    max_exp_avg_sq = amsgrad and moth.zeros_like(p) or nil,
  }
end

local none = {}

local function run(self, group, params, grads, lists, step)
  local betas = group.betas
  adam_step(params, grads, lists.avg, lists.sq, group.amsgrad and lists.top or none, group.lr,
    betas[1], betas[2], group.eps, group.weight_decay, self._decoupled, group.amsgrad,
    group.maximize, step)
end

-- Parameters that took part in different numbers of steps: one call for each number.
local function run_by_step(self, group, lists, n)
  local parts, order = {}, {}
  for i = 1, n do
    local p = group._params[i]
    local step = self.state[p].step
    local part = parts[step]
    if not part then
      part = { params = {}, grads = {}, avg = {}, sq = {}, top = {} }
      parts[step], order[#order + 1] = part, step
    end
    local k = #part.params + 1
    part.params[k], part.grads[k] = p, group._grads[i]
    part.avg[k], part.sq[k], part.top[k] = lists.avg[i], lists.sq[i], lists.top[i]
  end
  for _, step in ipairs(order) do
    local part = parts[step]
    run(self, group, part.params, part.grads, part, step)
  end
end

local function update(self, group)
  local n = self:gather(group)
  if n == 0 then return end
  local lists = group._lists or { avg = {}, sq = {}, top = {} }
  group._lists = lists
  local params, state, amsgrad = group._params, self.state, group.amsgrad
  local avg, sq, top = lists.avg, lists.sq, lists.top
  local step, mixed
  for i = 1, n do
    local p = params[i]
    local own = state[p]
    if not own then
      own = fresh(p, amsgrad)
      state[p] = own
    end
    local t = own.step + 1
    own.step = t
    if step and t ~= step then mixed = true end
    step = t
    avg[i], sq[i] = own.exp_avg, own.exp_avg_sq
    if amsgrad then top[i] = own.max_exp_avg_sq end
  end
  trim(avg, n)
  trim(sq, n)
  trim(top, amsgrad and n or 0)
  if mixed then
    run_by_step(self, group, lists, n)
  else
    run(self, group, params, group._grads, lists, step)
  end
end

-- A saved step may be a tensor, as PyTorch writes it.
local function load_state_dict(self, dict)
  optimizer.Optimizer.load_state_dict(self, dict)
  for _, own in pairs(self.state) do
    if type(own.step) == "userdata" then own.step = math.tointeger(own.step:item()) end
  end
end

local function define(name, weight_decay, decoupled)
  local class = optimizer.class(name, options:format(weight_decay))
  class._decoupled = decoupled
  class.check, class.update, class.load_state_dict = check, update, load_state_dict
  return class
end

return {
  --- optim.Adam(params, { lr, betas, eps, weight_decay, amsgrad, maximize })
  Adam = define("Adam", "0.0", false),
  --- optim.AdamW(params, { lr, betas, eps, weight_decay = 0.01, amsgrad, maximize })
  AdamW = define("AdamW", "0.01", true),
}
