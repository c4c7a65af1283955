--- Handwritten digits with two hidden layers: the first thing to run.
---
---     moth samples/mnist.lua                 the bundled 12,000 images: 97 % in about a minute
---     moth samples/mnist.lua --quick         a few seconds
---     moth samples/mnist.lua --data FOLDER   other files in MNIST's format, for example all 60,000
---
--- Images are shifted by a pixel now and then, which is worth two points of accuracy on so few.
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

local Net = nn.class("Net")

function Net:init(hidden)
  self.fc1 = nn.Linear(784, hidden)
  self.fc2 = nn.Linear(hidden, hidden // 2)
  self.out = nn.Linear(hidden // 2, 10)
  self.dropout = nn.Dropout(0.2)
end

function Net:forward(x)
  x = self.dropout(self.fc1(x:view(-1, 784)):relu())
  x = self.dropout(self.fc2(x):relu())
  return self.out(x)
end

-- The whole batch moved by -1, 0 or 1 pixel in each direction.
local function shifted(images)
  return images:roll({ math.random(-1, 1), math.random(-1, 1) }, { 3, 4 })
end

local train_set = vision.datasets.MNIST(options.data)
local test_set = vision.datasets.MNIST(options.data, { train = false })
local epochs, rate, hidden, goal = 15, 1.5e-3, 512, 0.96
if options.quick then
  epochs, hidden, goal = 2, 128, 0.85
  train_set = data.Subset(train_set, moth.arange(1, 4001):tolist())
end
local train_loader = data.DataLoader(train_set, { batch_size = 64, shuffle = true, seed = 1 })
local test_loader = data.DataLoader(test_set, { batch_size = 500 })

math.randomseed(1)
local model = Net(hidden)
local optimizer = optim.Adam(model:parameters(), { lr = rate })
print(model)
print(("%d training images, %d test images"):format(#train_set, #test_set))

local accuracy
for epoch = 1, epochs do
  optimizer.param_groups[1].lr = rate * (1 - (epoch - 1) / epochs)
  model:train()
  for bar, images, labels in train.progress(train_loader, { desc = "epoch " .. epoch }) do
    if not options.quick then images = shifted(images) end
    local loss = nn.functional.cross_entropy(model(images), labels)
    optimizer:zero_grad()
    loss:backward()
    optimizer:step()
    bar:mean { loss = loss }
  end
  accuracy = train.accuracy(model, test_loader)
  print(("epoch %d: %.2f %% of the test images are right"):format(epoch, 100 * accuracy))
end

-- A few digits with what the model sees in them.
model:eval()
local images, labels = test_set:get_batch(moth.arange(1, 5))
local guesses = moth.no_grad(function() return model(images):argmax(-1) end)
for i = 1, 3 do
  print(vision.ascii(images[i]))
  print(("the model says %s, it is %s\n"):format(
    test_set.classes[guesses[i]:item()], test_set.classes[labels[i]:item()]))
end

assert(accuracy >= goal, ("expected at least %g, got %g"):format(goal, accuracy))
