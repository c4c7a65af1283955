--- Handwritten digits with a convolutional network in the style of LeNet-5.
---
---     moth samples/mnist_cnn.lua                 the bundled 12,000 images: 98 % in a minute
---     moth samples/mnist_cnn.lua --quick         a few seconds
---     moth samples/mnist_cnn.lua --data FOLDER   other files in MNIST's format
local moth = require "moth"
local nn, optim = require "moth.nn", require "moth.optim"
local data, vision, train = require "moth.data", require "moth.vision", require "moth.train"

local here = arg[0]:match("^(.*)/[^/]*$") or "."
local options = { data = here .. "/data/mnist" }
for i, a in ipairs(arg) do
  if a == "--quick" then options.quick = true end
  if a == "--data" then options.data = arg[i + 1] end
end

moth.manual_seed(1)
math.randomseed(1)

local model = nn.Sequential(
  nn.Conv2d(1, 8, 5, { padding = 2 }), nn.ReLU(), nn.MaxPool2d(2),
  nn.Conv2d(8, 16, 5), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
  nn.Flatten(), nn.Linear(16 * 5 * 5, 84), nn.ReLU(), nn.Linear(84, 10))

local train_set = vision.datasets.MNIST(options.data)
local test_set = vision.datasets.MNIST(options.data, { train = false })
local epochs, goal = 6, 0.97
if options.quick then
  epochs, goal = 1, 0.8
  train_set = data.Subset(train_set, moth.arange(1, 3001):tolist())
  test_set = data.Subset(test_set, moth.arange(1, 501):tolist())
end
local train_loader = data.DataLoader(train_set, { batch_size = 64, shuffle = true, seed = 1 })
local test_loader = data.DataLoader(test_set, { batch_size = 250 })

local optimizer = optim.SGD(model:parameters(),
  { lr = 0.05, momentum = 0.9, nesterov = true, weight_decay = 5e-4 })
print(model)

local accuracy
for epoch = 1, epochs do
  optimizer.param_groups[1].lr = 0.05 * (1 - (epoch - 1) / epochs)
  model:train()
  for bar, images, labels in train.progress(train_loader, { desc = "epoch " .. epoch }) do
    -- The whole batch moves by up to a pixel: more variety than 12,000 images have of their own.
    images = images:roll({ math.random(-1, 1), math.random(-1, 1) }, { 3, 4 })
    local loss = nn.functional.cross_entropy(model(images), labels)
    optimizer:zero_grad()
    loss:backward()
    optimizer:step()
    bar:mean { loss = loss }
  end
  accuracy = train.accuracy(model, test_loader)
  print(("epoch %d: %.2f %% of the test images are right"):format(epoch, 100 * accuracy))
end

assert(accuracy >= goal, ("expected at least %g, got %g"):format(goal, accuracy))
