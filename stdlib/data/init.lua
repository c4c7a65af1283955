--- moth.data: datasets and loaders.
---
---     local data = require "moth.data"
---     local ds = data.TensorDataset(images, labels)
---     local train, test = table.unpack(data.random_split(ds, { 0.9, 0.1 }, { seed = 1 }))
---     local loader = data.DataLoader(train, { batch_size = 32, shuffle = true, seed = 1 })
local M = {}

for _, part in ipairs { "dataset", "sampler", "loader" } do
  for name, value in pairs(require("moth.data." .. part)) do M[name] = value end
end
M.count, M.check_position, M.permutation = nil, nil, nil

return M
