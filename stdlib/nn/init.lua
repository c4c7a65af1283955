--- moth.nn: layers, losses, initialisers and the class of all modules. Names, arguments, defaults
--- and the keys of state dicts are PyTorch's.
---
---     local nn = require "moth.nn"
---
---     local Net = nn.class("Net")
---     function Net:init(hidden)
---       self.fc1 = nn.Linear(784, hidden)
---       self.fc2 = nn.Linear(hidden, 10)
---     end
---     function Net:forward(x) return self.fc2(self.fc1(x):relu()) end
---
---     local net = Net(128)
---     print(net)
---     for name, p in net:named_parameters() do print(name, p:numel()) end
---
--- Arguments of layers go by position, by name in a trailing table, or both:
--- `nn.Conv2d(1, 6, 5, { padding = 2 })`.
local class = require "moth.nn.class"

local M = {
  class = class.class,
  Parameter = class.Parameter,
  is_parameter = class.is_parameter,
  is_module = class.is_module,
  Module = require "moth.nn.module",
  functional = require "moth.nn.functional",
  init = require "moth.nn.initializers",
  utils = require "moth.nn.utils",
}

local parts = {
  "activation", "attention", "cells", "container", "conv", "layers", "linear", "loss", "norm",
  "pool", "recurrent", "transformer",
}

for _, part in ipairs(parts) do
  for name, value in pairs(require("moth.nn." .. part)) do
    if name:find("^%u") then M[name] = value end
  end
end

return M
