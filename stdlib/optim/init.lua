--- moth.optim: optimisers. Options and defaults are PyTorch's; they go in a table behind the
--- parameters. A step is one fused kernel call per group of parameters.
---
---     local opt = optim.Adam(model:parameters(), { lr = 1e-3 })
---     for images, labels in loader:batches() do
---       local loss = F.cross_entropy(model(images), labels)
---       opt:zero_grad(); loss:backward(); opt:step()
---     end
---
--- Groups with options of their own: `optim.SGD({ { params = body }, { params = head, lr = 0.1 } },
--- { lr = 0.01 })`. Parameters without a gradient are left alone.
local optimizer = require "moth.optim.optimizer"
local adam = require "moth.optim.adam"

return {
  Optimizer = optimizer.Optimizer,
  class = optimizer.class,
  SGD = require "moth.optim.sgd",
  Adam = adam.Adam,
  AdamW = adam.AdamW,
}
