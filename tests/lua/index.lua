-- x[key] and x[key] = value: every kind of key against a plain Lua model, then messages and
-- gradients.

local check = require "check"
local moth = require "moth"

local function count(shape)
  local n = 1
  for _, s in ipairs(shape) do n = n * s end
  return n
end

-- ---- the model: which flat positions of x does a key name, and in which shape ----

local function range_positions(r, size)
  local first, last, step = r[1] or 1, r[2] or -1, r[3] or 1
  if first < 0 then first = math.max(first + size + 1, 1) end
  if last < 0 then last = last + size + 1 end
  local list = {}
  for i = first, math.min(last, size), step do list[#list + 1] = i end
  return list
end

-- Items as { all positions }, { drop = position }, { new = true } or { adv = {shape, at} }.
local function expand_items(items, shape)
  local out, dim, used = {}, 1, 0
  for _, it in ipairs(items) do
    if it ~= "..." and it ~= "newaxis" then
      used = used + (type(it) == "table" and it.mask and #it.shape or 1)
    end
  end
  local function all(n)
    for _ = 1, n do
      out[#out + 1] = { list = range_positions({}, shape[dim]) }
      dim = dim + 1
    end
  end
  for _, it in ipairs(items) do
    if it == "..." then
      all(#shape - used)
    elseif it == "newaxis" then
      out[#out + 1] = { new = true }
    elseif type(it) == "number" then
      out[#out + 1] = { drop = it < 0 and it + shape[dim] + 1 or it }
      dim = dim + 1
    elseif it.adv then
      local at = {}
      for i, v in ipairs(it.adv) do at[i] = v < 0 and v + shape[dim] + 1 or v end
      out[#out + 1] = { adv = { shape = it.shape, at = at } }
      dim = dim + 1
    elseif it.mask then
      local lists = {}
      for d = 1, #it.shape do lists[d] = {} end
      for i, v in ipairs(it.mask) do
        local rest = i - 1
        for d = #it.shape, 1, -1 do
          if v then lists[d][#lists[d] + 1] = rest % it.shape[d] + 1 end
          rest = rest // it.shape[d]
        end
      end
      for d = 1, #it.shape do out[#out + 1] = { adv = { shape = { #lists[1] }, at = lists[d] } } end
      dim = dim + #it.shape
    else
      out[#out + 1] = { list = range_positions(it, shape[dim]) }
      dim = dim + 1
    end
  end
  all(#shape - dim + 1)
  return out
end

local function broadcast(items)
  local shape = {}
  for _, it in ipairs(items) do
    if it.adv then
      local s = it.adv.shape
      local n = math.max(#shape, #s)
      local joined = {}
      for i = 1, n do
        local a, b = shape[#shape - n + i] or 1, s[#s - n + i] or 1
        joined[i] = a == 1 and b or a
      end
      shape = joined
    end
  end
  return shape
end

-- Where the dims of index tensors go: 1-based place among the result's dims.
local function placement(items)
  local place, dims, runs, inside = 1, 0, 0, false
  for _, it in ipairs(items) do
    if it.adv then
      if not inside then runs, place = runs + 1, dims + 1 end
      inside = true
    elseif not it.drop then
      dims, inside = dims + 1, false
    end
  end
  return runs > 1 and 1 or place
end

local function model(items, shape)
  local list = expand_items(items, shape)
  local adv, place = broadcast(list), placement(list)
  local has_adv, dims, result = false, {}, {}
  for _, it in ipairs(list) do
    if it.adv then has_adv = true end
    if it.list then dims[#dims + 1] = #it.list elseif it.new then dims[#dims + 1] = 1 end
  end
  for i = 1, #dims + 1 do
    if has_adv and i == place then table.move(adv, 1, #adv, #result + 1, result) end
    if dims[i] then result[#result + 1] = dims[i] end
  end
  local flat = {}
  for n = 0, count(result) - 1 do
    local at, rest = {}, n
    for d = #result, 1, -1 do at[d], rest = rest % result[d] + 1, rest // result[d] end
    local own, k = {}, has_adv and place or 1
    for i = 1, #dims do own[i] = at[(has_adv and i >= place) and i + #adv or i] end
    local source, o = 0, 1
    local dim = 1
    for _, it in ipairs(list) do
      local p
      if it.new then
        o = o + 1
      elseif it.drop then
        p = it.drop
      elseif it.list then
        p, o = it.list[own[o]], o + 1
      else
        local s, index = it.adv.shape, 0
        for d = 1, #s do
          local c = at[k + #adv - #s + d - 1]
          index = index * s[d] + (s[d] == 1 and 0 or c - 1)
        end
        p = it.adv.at[index + 1]
      end
      if p then source, dim = source * shape[dim] + p - 1, dim + 1 end
    end
    flat[n + 1] = source + 1
  end
  return flat, result
end

-- ---- random keys ----

local random = math.random
math.randomseed(1234)

local function random_item(size, adv_shape)
  local kind = random(6)
  if kind == 1 then return random(2) == 1 and random(size) or -random(size) end
  if kind == 2 then return {} end
  if kind == 3 then
    local a, b = random(-size - 1, size + 2), random(-size - 1, size + 2)
    return { a == 0 and 1 or a, b, random(3) }
  end
  if kind == 4 then return { random(size), -1 } end
  local n, at = count(adv_shape), {}
  for i = 1, n do at[i] = random(2) == 1 and random(size) or -random(size) end
  return { adv = at, shape = adv_shape }
end

local function random_key(shape)
  local items, dim = {}, 1
  local adv_shape = ({ { 3 }, { 2, 2 }, { 1 }, {} })[random(4)]
  local dots = random(4) == 1
  while dim <= #shape do
    if random(6) == 1 then items[#items + 1] = "newaxis" end
    if dots and random(3) == 1 then
      items[#items + 1], dots = "...", false
      dim = dim + random(0, #shape - dim)
    elseif random(8) == 1 and dim < #shape then
      local mask = {}
      for i = 1, shape[dim] * shape[dim + 1] do mask[i] = random(2) == 1 end
      items[#items + 1] = { mask = mask, shape = { shape[dim], shape[dim + 1] } }
      return items -- a mask's count broadcasts with nothing else
    elseif dots == false or random(5) > 1 then
      items[#items + 1] = random_item(shape[dim], adv_shape)
      dim = dim + 1
    else
      break
    end
  end
  return items
end

-- Keys with "..." must mean the same dims for both sides, so positions after it are rebuilt from
-- the right.
local function usable(items, shape)
  local used, dots, adv, mask = 0, 0, 0, false
  for _, it in ipairs(items) do
    if it == "..." then dots = dots + 1 end
    if type(it) ~= "string" then used = used + (type(it) == "table" and it.mask and 2 or 1) end
    if type(it) == "table" and it.adv then adv = adv + 1 end
    if type(it) == "table" and it.mask then mask = true end
  end
  if dots > 0 then
    for i, it in ipairs(items) do
      if it == "..." then
        for j = i + 1, #items do if type(items[j]) ~= "string" then return false end end
      end
    end
  end
  return used <= #shape and not (mask and adv > 0)
end

local function to_key(items)
  local key = {}
  for i, it in ipairs(items) do
    if it == "newaxis" then
      key[i] = moth.newaxis
    elseif type(it) == "table" and it.adv then
      key[i] = moth.tensor(it.adv, { dtype = "int64" }):reshape(it.shape)
    elseif type(it) == "table" and it.mask then
      key[i] = moth.tensor(it.mask):reshape(it.shape)
    else
      key[i] = it
    end
  end
  return key
end

local shapes = { { 5 }, { 4, 3 }, { 2, 3, 4 }, { 3, 1, 2, 4 } }

check.test("any key reads what the model says", function()
  for round = 1, 600 do
    local shape = shapes[round % #shapes + 1]
    local items = random_key(shape)
    if usable(items, shape) then
      local x = moth.arange(1, count(shape) + 1):reshape(shape)
      local flat, result = model(items, shape)
      local y = x[to_key(items)]
      check.equal(y:size(), result)
      check.equal(y:reshape(-1):tolist(), flat)
    end
  end
end)

check.test("any key writes there and nowhere else, with the right gradients", function()
  for round = 1, 400 do
    local shape = shapes[round % #shapes + 1]
    local items = random_key(shape)
    local flat, result = model(items, shape)
    local seen, unique = {}, true
    for _, p in ipairs(flat) do unique, seen[p] = unique and not seen[p], true end
    if usable(items, shape) and unique then
      local n = count(shape)
      local x = moth.zeros(shape):requires_grad_()
      local v = moth.arange(1.0, #flat + 1):reshape(result):requires_grad_()
      local weight = moth.arange(1.0, n + 1):reshape(shape)
      local h = x * 1
      h[to_key(items)] = v
      local expected, kept, moved = {}, {}, {}
      for i = 1, n do expected[i], kept[i] = 0, i end
      for i, p in ipairs(flat) do expected[p], kept[p], moved[i] = i, 0, p end
      check.equal(h:reshape(-1):tolist(), expected);
      (h * weight):sum():backward()
      check.equal(x.grad:reshape(-1):tolist(), kept)
      if #flat > 0 then check.equal(v.grad:reshape(-1):tolist(), moved) end
    end
  end
end)

check.done()
