--- nn.functional: PyTorch's names for the functions of networks. They are the operations of the
--- core under the same names, looked up once and then kept.
---
---     local F = nn.functional
---     local loss = F.cross_entropy(logits, targets, { label_smoothing = 0.1 })
local moth = require "moth"

-- What PyTorch calls differently here and among the tensor methods.
local names = { unfold = "im2col" }

return setmetatable({}, {
  __index = function(self, name)
    local f = moth[names[name] or name]
    rawset(self, name, f)
    return f
  end,
})
