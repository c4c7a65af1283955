--- A recurrent network that writes text one character at a time, in the manner of what it has read.
---
---     moth samples/char_rnn.lua                 the bundled 100 KB of Shakespeare
---     moth samples/char_rnn.lua --quick         a few seconds
---     moth samples/char_rnn.lua --data FILE     any text file
---
--- Training cuts the text into parallel streams and unrolls the network over pieces of them; the
--- state is carried from piece to piece without its graph.
local moth = require "moth"
local nn, optim = require "moth.nn", require "moth.optim"
local text, train = require "moth.text", require "moth.train"

local here = arg[0]:match("^(.*)/[^/]*$") or "."
local options = { data = here .. "/data/tinyshakespeare.txt" }
for i, a in ipairs(arg) do
  if a == "--quick" then options.quick = true end
  if a == "--data" then options.data = arg[i + 1] end
end

moth.manual_seed(1)

local corpus = text.read(options.data)
if options.quick then corpus = corpus:sub(1, 20000) end
local vocab = text.Vocab(corpus)

local Writer = nn.class("Writer")

function Writer:init(vocabulary, size)
  self.embed = nn.Embedding(vocabulary, size)
  self.lstm = nn.LSTM(size, size)
  self.out = nn.Linear(size, vocabulary)
end

-- ids: (time, streams). Gives logits of the same shape with the vocabulary behind, and the state.
function Writer:forward(ids, state)
  local y
  y, state = self.lstm(self.embed(ids), state)
  return self.out(y), state
end

local streams, piece = 32, 32
local epochs = options.quick and 3 or 8
local model = Writer(#vocab, options.quick and 64 or 128)
local optimizer = optim.Adam(model:parameters(), { lr = 5e-3 })

-- The text as `streams` columns that are read from top to bottom.
local ids = vocab:encode(corpus)
local rows = (#corpus - 1) // streams
local inputs = ids:narrow(1, 1, rows * streams):view(streams, rows):t()
local targets = ids:narrow(1, 2, rows * streams):view(streams, rows):t()

local first, last
for epoch = 1, epochs do
  optimizer.param_groups[1].lr = 5e-3 * (1 - (epoch - 1) / epochs)
  local state
  for bar, i in train.progress(rows // piece, { desc = "epoch " .. epoch }) do
    local at = (i - 1) * piece + 1
    local logits
    logits, state = model(inputs:narrow(1, at, piece), state)
    local loss = nn.functional.cross_entropy(logits:reshape(-1, #vocab),
      targets:narrow(1, at, piece):reshape(-1))
    optimizer:zero_grad()
    loss:backward()
    nn.utils.clip_grad_norm_(model:parameters(), 1.0)
    optimizer:step()
    state = { state[1]:detach(), state[2]:detach() }
    bar:mean { loss = loss }
    last = bar
  end
  first = first or last:value("loss")
end

--- Continues a text; a low temperature keeps to the likely characters.
local function write(start, length, temperature)
  return moth.no_grad(function()
    local out, state = { start }, nil
    local input = vocab:encode(start):unsqueeze(2)
    for _ = 1, length do
      local logits
      logits, state = model(input, state)
      local p = (logits[-1] / temperature):softmax(-1)
      input = p:multinomial(1)
      out[#out + 1] = vocab:decode(input)
    end
    return table.concat(out)
  end)
end

print(write("First", options.quick and 150 or 500, 0.7))
local loss = last:value("loss")
print(("loss per character: %.2f in the first epoch, %.2f in the last"):format(first, loss))
assert(loss < 0.9 * first and loss < (options.quick and 2.9 or 2.0), "the network did not learn")
