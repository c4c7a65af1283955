--- A table that remembers the order in which its keys were first assigned: `pairs` follows it, `#`
--- counts the entries. Reading is a plain table access.
---
---     local d = ordered.new()
---     d.b, d.a = 1, 2
---     for k, v in pairs(d) do print(k, v) end   --> b 1, a 2
local M = {}

local rawset, setmetatable = rawset, setmetatable

local function iterate(t, keys)
  local i = 0
  return function()
    while true do
      i = i + 1
      local k = keys[i]
      if k == nil then return nil end
      local v = rawget(t, k)
      if v ~= nil then return k, v end
    end
  end
end

--- An empty ordered table.
function M.new()
  local keys, seen = {}, {}
  return setmetatable({}, {
    __name = "moth.OrderedDict",
    __newindex = function(t, k, v)
      if not seen[k] then
        seen[k] = true
        keys[#keys + 1] = k
      end
      rawset(t, k, v)
    end,
    __pairs = function(t) return iterate(t, keys), t, nil end,
    __len = function(t)
      local n = 0
      for _ in iterate(t, keys) do n = n + 1 end
      return n
    end,
    __tostring = function(t)
      local parts = {}
      for k in iterate(t, keys) do parts[#parts + 1] = tostring(k) end
      return "OrderedDict(" .. table.concat(parts, ", ") .. ")"
    end,
  })
end

return M
