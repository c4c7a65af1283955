-- Datasets, loaders, image files and text.

local check = require "check"
local moth = require "moth"
local data = require "moth.data"
local vision = require "moth.vision"
local text = require "moth.text"

local function sizes(loader)
  local list = {}
  for x in loader:batches() do list[#list + 1] = x:size(1) end
  return list
end

local function numbers(n) return data.TensorDataset(moth.arange(1, n + 1)) end

check.test("sizes and lengths with and without the last batch", function()
  local ds = numbers(10)
  check.equal(sizes(data.DataLoader(ds, { batch_size = 4 })), { 4, 4, 2 })
  check.equal(#data.DataLoader(ds, { batch_size = 4 }), 3)
  local dropping = data.DataLoader(ds, { batch_size = 4, drop_last = true })
  check.equal(sizes(dropping), { 4, 4 })
  check.equal(#dropping, 2)
  local huge = data.DataLoader(ds, { batch_size = 100, drop_last = true })
  check.equal(sizes(huge), {})
  check.equal(#huge, 0)
  local empty = data.DataLoader(numbers(0), { batch_size = 4, shuffle = true })
  check.equal(sizes(empty), {})
  check.equal(#empty, 0)
end)

local function order(loader)
  local list = {}
  for x in loader:batches() do
    for _, v in ipairs(x:tolist()) do list[#list + 1] = v end
  end
  return list
end

local function sorted(list)
  local copy = table.move(list, 1, #list, 1, {})
  table.sort(copy)
  return copy
end

check.test("shuffling: every sample once, new each epoch, fixed by the seed", function()
  local ds = numbers(50)
  local function loader(seed)
    return data.DataLoader(ds, { batch_size = 8, shuffle = true, seed = seed })
  end
  local a, b = loader(1), loader(1)
  local first = order(a)
  check.equal(sorted(first), order(data.DataLoader(ds)))
  check.equal(order(b), first)
  local second = order(a)
  check.that(table.concat(first, " ") ~= table.concat(second, " "), "epochs differ")
  moth.rand(3)
  check.equal(order(b), second)
  check.that(table.concat(order(loader(2)), " ") ~= table.concat(first, " "), "seeds differ")
  moth.manual_seed(5)
  local free = order(loader())
  moth.manual_seed(5)
  check.equal(order(loader()), free)
end)

check.test("a seeded loader leaves the global generator alone", function()
  moth.manual_seed(1)
  local want = moth.rand(2):tolist()
  moth.manual_seed(1)
  order(data.DataLoader(numbers(5), { shuffle = true, seed = 9 }))
  check.equal(moth.rand(2):tolist(), want)
end)

local Words = data.dataset("Words")
function Words:init(n) self.n = n end
function Words:__len() return self.n end
function Words:get(i) return moth.full({ 2 }, i * 1.0), i, "w" .. i end

check.test("any object with get and a length; samples are joined by kind", function()
  local loader = data.DataLoader(Words(5), { batch_size = 2 })
  local batches = {}
  for x, n, w in loader:batches() do batches[#batches + 1] = { x, n, w } end
  check.equal(#batches, 3)
  check.equal(batches[2][1]:tolist(), { { 3, 3 }, { 4, 4 } })
  check.equal(batches[2][2]:tolist(), { 3, 4 })
  check.equal(batches[3][3], { "w5" })
  local own = data.DataLoader(Words(3), { batch_size = 2,
    collate_fn = function(samples) return #samples, samples[1][3] end })
  local seen = {}
  for n, w in own:batches() do seen[#seen + 1] = n .. w end
  check.equal(seen, { "2w1", "1w3" })
  check.equal(tostring(Words(5)), "Words(5 samples)")
end)

check.test("subsets, splits, concatenation", function()
  local ds = data.TensorDataset(moth.arange(1, 11), moth.arange(101, 111))
  local part = data.Subset(ds, { 3, -1 })
  check.equal(#part, 2)
  check.equal(select(2, part:get(2)):item(), 110)
  local x, y = part:get_batch(moth.tensor { 2, 1 })
  check.equal(x:tolist(), { 10, 3 })
  check.equal(y:tolist(), { 110, 103 })
  local a, b = table.unpack(data.random_split(ds, { 0.75, 0.25 }, { seed = 1 }))
  check.equal({ #a, #b }, { 8, 2 })
  local all = order(data.DataLoader(a))
  table.move(order(data.DataLoader(b)), 1, 2, #all + 1, all)
  check.equal(sorted(all), { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 })
  check.raises("sum to 9, the dataset has 10", function() data.random_split(ds, { 4, 5 }) end)
  local joined = data.ConcatDataset { numbers(2), numbers(3) }
  check.equal(#joined, 5)
  check.equal(joined:get(3):item(), 1)
  check.equal(joined:get(-1):item(), 3)
end)

check.test("a weighted sampler draws what has weight", function()
  local sampler = data.WeightedRandomSampler({ 0, 1, 0 }, 20)
  local loader = data.DataLoader(numbers(3), { batch_size = 5, sampler = sampler })
  check.equal(#loader, 4)
  for _, v in ipairs(order(loader)) do check.equal(v, 2) end
end)

check.test("wrong arguments are named", function()
  local ds = numbers(3)
  check.raises("positions start at 1", function() ds:get(0) end)
  check.raises("position 4 is out of range 1..3", function() ds:get(4) end)
  check.raises("tensor 2 has 2 rows, the first has 3", function()
    data.TensorDataset(moth.zeros(3), moth.zeros(2))
  end)
  check.raises("batch_size must be an integer from 1, got 0", function()
    data.DataLoader(ds, { batch_size = 0 })
  end)
  check.raises("a dataset needs a method get", function()
    data.DataLoader({}, { batch_size = 1 })
  end)
  check.raises("either a sampler or shuffle", function()
    data.DataLoader(ds, { shuffle = true, sampler = data.SequentialSampler() })
  end)
end)

-- ---- image files ----

local function idx(magic, dims, bytes)
  local parts = { (">I4"):pack(magic) }
  for _, d in ipairs(dims) do parts[#parts + 1] = (">I4"):pack(d) end
  return table.concat(parts) .. bytes
end

local function folder(files)
  local name = os.tmpname()
  os.remove(name)
  assert(os.execute("mkdir " .. name))
  for file, contents in pairs(files) do
    local f = assert(io.open(name .. "/" .. file, "wb"))
    f:write(contents)
    f:close()
  end
  return name
end

check.test("MNIST: labels from 1, floats 0..1, subsets and batches", function()
  local pixels = {}
  for i = 0, 11 do pixels[#pixels + 1] = string.char(i * 20) end
  local root = folder {
    ["train-images-idx3-ubyte"] = idx(0x803, { 3, 2, 2 }, table.concat(pixels)),
    ["train-labels-idx1-ubyte"] = idx(0x801, { 3 }, "\0\9\3"),
  }
  local ds = vision.datasets.MNIST(root)
  check.equal(#ds, 3)
  local image, label = ds:get(2)
  check.equal(image:size(), { 1, 2, 2 })
  check.that(math.abs(image[{ 1, 1, 2 }]:item() - 100 / 255) < 1e-6, "scaled")
  check.equal(label, 10)
  check.equal(ds.classes[label], "9")
  local images, labels = ds:get_batch(moth.tensor { 3, 1 })
  check.equal(images:size(), { 2, 1, 2, 2 })
  check.equal(labels:tolist(), { 4, 1 })
  local doubled = vision.datasets.MNIST(root, { transform = function(x) return x * 2 end })
  for x, y in data.DataLoader(doubled, { batch_size = 3 }):batches() do
    check.that(math.abs(x[{ 2, 1, 1, 2 }]:item() - 200 / 255) < 1e-6, "transformed")
    check.equal(y:tolist(), { 1, 10, 4 })
  end
  check.raises("there is no file t10k%-images.*Looked for:", function()
    vision.datasets.MNIST(root, { train = false })
  end)
  os.execute("rm -r " .. root)
end)

check.test("image files that lie are refused", function()
  local good = idx(0x801, { 2 }, "\0\1")
  local cases = {
    { idx(0x803, { 2, 2, 2 }, "\0\0\0"), good },
    { idx(0x803, { 0xFFFFFFFF, 0xFFFFFFFF, 2 }, ""), good },
    { idx(0x803, { 2, 1, 1 }, "\0\0"), idx(0x801, { 3 }, "\0\1\2") },
    { idx(0x803, { 2, 1, 1 }, "\0\0"), idx(0x801, { 2 }, "\0\11") },
    { "", good }, { "nonsense", good },
  }
  for i, case in ipairs(cases) do
    local root = folder { ["train-images-idx3-ubyte"] = case[1],
      ["train-labels-idx1-ubyte"] = case[2] }
    local ok = pcall(vision.datasets.MNIST, root)
    check.that(not ok, "case " .. i)
    os.execute("rm -r " .. root)
  end
end)

check.test("pictures as text", function()
  check.equal(vision.ascii(moth.tensor { { 0.0, 1.0 }, { 1.0, 0.0 } }), "  @@\n@@  ")
end)

check.test("characters as numbers", function()
  local vocab = text.Vocab("hello\n")
  check.equal(vocab.chars, { "\n", "e", "h", "l", "o" })
  check.equal(vocab:encode("hole"):tolist(), { 3, 5, 4, 2 })
  check.equal(vocab:decode(vocab:encode("hello")), "hello")
  check.equal(#vocab, 5)
  check.raises("character \"x\" at position 2", function() vocab:encode("hx") end)
  check.raises("number 6 is not in 1..5", function() vocab:decode { 6 } end)
  check.raises("No such file", function() text.read("/no/such/file") end)
end)

check.done()
