--- Gradients of gradients: a critic with a gradient penalty.
---
--- A small network learns to tell two clouds of points apart by scoring one high and the other low.
--- The penalty keeps the slope of the score near 1 everywhere between them (as in WGAN-GP), so the
--- loss contains a gradient, and training needs the gradient of that gradient.
---
---     moth samples/double_backward.lua [--quick]
local moth = require "moth"
local nn, optim = require "moth.nn", require "moth.optim"

local quick = arg[1] == "--quick"
moth.manual_seed(2)

local critic = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(),
  nn.Linear(32, 1))
local optimizer = optim.Adam(critic:parameters(), { lr = 2e-3 })

local function cloud(n, x, y) return moth.randn(n, 2) * 0.3 + moth.tensor { x, y } end

-- Length of the critic's gradient at points; with create_graph it can be differentiated again.
local function slope(points, create_graph)
  points = points:detach():requires_grad_()
  local score = critic(points):sum()
  local g = moth.autograd.grad({ score }, { points }, { create_graph = create_graph })[1]
  return (g:square():sum(2) + 1e-12):sqrt()
end

local steps, n = quick and 150 or 600, 64
for step = 1, steps do
  local a, b = cloud(n, 1.5, 0.0), cloud(n, -1.5, 0.0)
  local mix = moth.rand(n, 1)
  local between = a * mix + b * (1 - mix)
  local distance = critic(a):mean() - critic(b):mean()
  local penalty = (slope(between, true) - 1):square():mean()
  local loss = 10 * penalty - distance
  optimizer:zero_grad()
  loss:backward()
  optimizer:step()
  if step % (steps // 5) == 0 then
    print(("step %4d  distance %.3f  penalty %.4f"):format(step, distance:item(), penalty:item()))
  end
end

-- The clouds are 3 apart. A score with slope s along the way earns 3 s - 10 (s - 1)^2, which is
-- most at s = 1.15: that is what the critic must find, and a distance of 3.45 with it.
local a, b = cloud(1000, 1.5, 0.0), cloud(1000, -1.5, 0.0)
local distance = (critic(a):mean() - critic(b):mean()):item()
local mean_slope = slope((a + b) * 0.5, false):mean():item()
print(("distance %.2f (best is 3.45), mean slope %.2f (best is 1.15)"):format(distance, mean_slope))
assert(math.abs(distance - 3.45) < 0.2, "the distance is off")
assert(math.abs(mean_slope - 1.15) < 0.1, "the slope is off")
