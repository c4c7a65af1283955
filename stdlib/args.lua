--- Declared arguments: one text names the arguments of a constructor and their defaults, and every
--- way to pass them is derived from it: by position, by name in a trailing table, or both.
---
---     local sig = args.parse("Linear", "in_features, out_features, bias=true")
---     sig:resolve(3, 4)                                  --> 3, 4, true
---     sig:resolve(3, 4, { bias = false })                --> 3, 4, false
---     sig:resolve { in_features = 3, out_features = 4 }  --> 3, 4, true
---
--- A name without a default is required; nil always means "not given", so `=nil` marks an optional
--- argument. A trailing table counts as options when it is a plain table without a first element.
local M = {}

local concat, unpack, getmetatable, type = table.concat, table.unpack, getmetatable, type

-- Where the standard library lies, so that errors can name the first line outside of it.
local library = debug and debug.getinfo(1, "S").source:gsub("args%.?[lua]*$", "")

--- Raises `message` at the line of the user's script that led here.
---@param message string
function M.fail(message)
  if not debug then error(message, 3) end
  local level = 2
  while true do
    local info = debug.getinfo(level, "S")
    if not info then error(message, 3) end
    if info.what ~= "C" and info.source:sub(1, #library) ~= library then break end
    level = level + 1
  end
  error(message, level)
end

local words = { ["true"] = true, ["false"] = false, inf = math.huge, ["-inf"] = -math.huge }

local function literal(text)
  if text == "nil" then return nil end
  local word = words[text]
  if word ~= nil then return word end
  local quoted = text:match("^[\"'](.*)[\"']$")
  if quoted then return quoted end
  return assert(tonumber(text), "not a literal: " .. text)
end

---@class moth.Signature
---@field name string
---@field text string the declaration
---@field names string[] argument names in order
---@field position table<string, integer>
---@field default table<string, any>
---@field required table<string, boolean>
local Signature = {}
Signature.__index = Signature

-- What help() shows as the arguments.
function Signature:__tostring() return self.text end

--- Reads a declaration such as "in_features, out_features, bias=true".
---@param name string of the class or function, for messages
---@param text string
---@return moth.Signature
function M.parse(name, text)
  local sig = setmetatable(
    { name = name, text = text, names = {}, position = {}, default = {}, required = {} }, Signature)
  for item in text:gmatch("[^,]+") do
    local key, value = item:match("^%s*([%w_]+)%s*=%s*(.-)%s*$")
    key = key or item:match("^%s*([%w_]+)%s*$")
    sig.names[#sig.names + 1] = key
    sig.position[key] = #sig.names
    if value then sig.default[key] = literal(value) else sig.required[key] = true end
  end
  return sig
end

--- Whether a trailing argument holds options (and is not itself a list or an object).
function M.is_options(v)
  return type(v) == "table" and v[1] == nil and getmetatable(v) == nil
end
local is_options = M.is_options

function Signature:fail(message)
  M.fail(self.name .. ": " .. message)
end

local function apply_options(self, values, npos, options)
  for key, value in pairs(options) do
    local pos = self.position[key]
    if not pos then
      self:fail(("unknown option '%s' (the arguments are: %s)"):format(
        tostring(key), concat(self.names, ", ")))
    elseif pos <= npos and values[pos] ~= nil then
      self:fail(("'%s' is given twice, by position and by name"):format(key))
    end
    values[pos] = value
  end
end

--- The values of all declared arguments, in order, as a list of `#self.names` slots.
---@return table values
function Signature:collect(...)
  local values, n = { ... }, select("#", ...)
  local options
  if n > 0 and is_options(values[n]) then
    options, values[n] = values[n], nil
    n = n - 1
  end
  if n > #self.names then
    self:fail(("takes %d arguments (%s), %d given"):format(
      #self.names, concat(self.names, ", "), n))
  end
  if options then apply_options(self, values, n, options) end
  for i, name in ipairs(self.names) do
    if values[i] == nil then
      if self.required[name] then self:fail(("argument '%s' is missing"):format(name)) end
      values[i] = self.default[name]
    end
  end
  return values
end

--- The same as separate values.
function Signature:resolve(...)
  return unpack(self:collect(...), 1, #self.names)
end

local function show(v)
  if type(v) == "string" then return '"' .. v .. '"' end
  if type(v) == "table" and getmetatable(v) == nil then
    local parts = {}
    for i, item in ipairs(v) do parts[i] = show(item) end
    return "{" .. concat(parts, ", ") .. "}"
  end
  if type(v) == "userdata" then return "tensor" end
  return tostring(v)
end

--- "in_features=3, out_features=4": the required values and those that differ from the default.
---@param values table as `collect` gave them
function Signature:describe(values)
  local parts = {}
  for i, name in ipairs(self.names) do
    local v = values[i]
    if self.required[name] or (v ~= nil and v ~= self.default[name]) then
      parts[#parts + 1] = name .. "=" .. show(v)
    end
  end
  return concat(parts, ", ")
end

return M
