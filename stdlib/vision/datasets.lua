--- vision.datasets: images from IDX files (MNIST and its relatives), plain or gzipped.
---
---     local train = vision.datasets.MNIST("samples/data/mnist")
---     local test = vision.datasets.MNIST("samples/data/mnist", { train = false })
---     local image, label = train:get(1)          -- (1, 28, 28) floats 0..1; 1..10
---     print(train.classes[label])                -- the digit: label 1 is "0"
---
--- Labels are class numbers from 1, as losses expect them; `classes[label]` is their name.
local moth = require "moth"
local args = require "moth.args"
local dataset = require "moth.data.dataset"

local M = {}

-- The path of one file below root, in the layouts that people have.
local function locate(name, root, file)
  local tried = {}
  for _, folder in ipairs { "", "/raw", "/" .. name .. "/raw", "/" .. name, "/" .. name:lower() } do
    for _, ending in ipairs { ".gz", "" } do
      local path = root .. folder .. "/" .. file .. ending
      if moth.io.exists(path) then return path end
      tried[#tried + 1] = path
    end
  end
  args.fail(("%s: there is no file %s(.gz) below '%s'. Looked for:\n  %s\n"
    .. "Put the dataset's four .gz files, as they are distributed, into that folder."):format(
    name, file, root, table.concat(tried, "\n  ")))
end

local function read(name, root, train)
  local prefix = train and "train" or "t10k"
  local images = moth.io.read_idx(locate(name, root, prefix .. "-images-idx3-ubyte"))
  local labels = moth.io.read_idx(locate(name, root, prefix .. "-labels-idx1-ubyte"))
  if images:dim() ~= 3 or labels:dim() ~= 1 or images:size(1) ~= labels:size(1) then
    args.fail(("%s: images (%s) and labels (%s) do not belong together"):format(
      name, table.concat(images.shape, ", "), table.concat(labels.shape, ", ")))
  end
  return images, labels:to("int64") + 1
end

local sig_text = "root, train=true, transform=nil"

--- A class of datasets in the files of MNIST's format.
local function define(name, classes)
  local Images = dataset.dataset(name)
  local sig = args.parse(name, sig_text)

  --- `root` is the folder of the files; `transform` is called with each image, a (1, H, W) tensor.
  function Images:init(...)
    local root, train, transform = sig:resolve(...)
    self.images, self.targets = read(name, root, train)
    self.transform, self.classes = transform, classes
    local worst = self.targets:numel() > 0 and self.targets:max():item() or 1
    if worst > #classes then
      args.fail(("%s: a label is %d, there are %d classes"):format(name, worst - 1, #classes))
    end
    if transform then self.get_batch = false end
  end

  function Images:__len() return self.images:size(1) end

  function Images:get(i)
    i = dataset.check_position(self, i)
    local image = self.images:select(1, i):to("float32"):div_(255):unsqueeze(1)
    if self.transform then image = self.transform(image) end
    return image, self.targets:select(1, i):item()
  end

  --- A whole batch by an index tensor: (N, 1, H, W) floats and N labels.
  function Images:get_batch(indices)
    local images = self.images:index_select(1, indices):to("float32"):div_(255):unsqueeze(2)
    return images, self.targets:index_select(1, indices)
  end

  M[name] = Images
end

define("MNIST", { "0", "1", "2", "3", "4", "5", "6", "7", "8", "9" })
define("FashionMNIST", { "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt",
  "Sneaker", "Bag", "Ankle boot" })

return M
