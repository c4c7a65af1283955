--- moth.text: characters as numbers.
---
---     local corpus = text.read("samples/data/tinyshakespeare.txt")
---     local vocab = text.Vocab(corpus)
---     local ids = vocab:encode("To be")          -- int64 tensor, numbers from 1
---     print(vocab:decode(ids), #vocab)
local moth = require "moth"
local args = require "moth.args"

local M = {}

--- The contents of a file.
---@param path string
---@return string
function M.read(path)
  local file, why = io.open(path, "rb")
  if not file then args.fail("text.read: " .. why) end
  local contents = file:read("a")
  file:close()
  if not contents then args.fail("text.read: cannot read " .. path) end
  return contents
end

---@class moth.text.Vocab the characters (bytes) of a text, numbered in byte order
---@field chars string[]
local Vocab = { __name = "Vocab" }
Vocab.__index = Vocab

local function construct(_, contents)
  local seen, self = {}, setmetatable({ chars = {}, ids = {} }, Vocab)
  for c in contents:gmatch(".") do seen[c] = true end
  for b = 0, 255 do
    local c = string.char(b)
    if seen[c] then
      self.chars[#self.chars + 1] = c
      self.ids[c] = #self.chars
    end
  end
  return self
end

function Vocab:__len() return #self.chars end

function Vocab:__tostring() return ("Vocab(%d characters)"):format(#self.chars) end

--- The numbers of the characters of a text; a character that is not in the vocabulary raises.
---@param contents string
---@return moth.Tensor
function Vocab:encode(contents)
  local list, ids = {}, self.ids
  for i = 1, #contents do
    local id = ids[contents:sub(i, i)]
    if not id then
      args.fail(("encode: character %q at position %d is not in the vocabulary"):format(
        contents:sub(i, i), i))
    end
    list[i] = id
  end
  return moth.tensor(list, { dtype = "int64" })
end

--- The text for a tensor or list of numbers.
---@return string
function Vocab:decode(ids)
  if moth.is_tensor(ids) then ids = ids:reshape(-1):tolist() end
  local out = {}
  for i, id in ipairs(ids) do
    out[i] = self.chars[id]
      or args.fail(("decode: number %s is not in 1..%d"):format(tostring(id), #self.chars))
  end
  return table.concat(out)
end

M.Vocab = setmetatable(Vocab, { __call = construct })

return M
