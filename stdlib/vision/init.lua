--- moth.vision: datasets of images, and images as text.
---
---     local vision = require "moth.vision"
---     local mnist = vision.datasets.MNIST("samples/data/mnist", { train = false })
---     print(vision.ascii((mnist:get(1))))
local M = { datasets = require "moth.vision.datasets" }

local shades = " .:-=+*#%@"

--- A grey image with values 0..1, (H, W) or (1, H, W), as text: two columns a pixel.
---@param image moth.Tensor
---@return string
function M.ascii(image)
  if image:dim() == 3 then image = image:select(1, 1) end
  local lines = {}
  for r, row in ipairs(image:detach():tolist()) do
    local cells = {}
    for c, v in ipairs(row) do
      local at = math.floor(math.max(0, math.min(1, v)) * (#shades - 1) + 0.5) + 1
      cells[c] = shades:sub(at, at):rep(2)
    end
    lines[r] = table.concat(cells)
  end
  return table.concat(lines, "\n")
end

return M
