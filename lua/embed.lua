-- embed.lua - turns the Lua files of the standard library into one C source.
--
--   lua lua/embed.lua stdlib/nn/init.lua stdlib/optim/adam.lua ... > stdlib.c
--
-- The C file defines `const struct mt_stdlib_file mt_stdlib[]` (lua/library.h): module name, file
-- name for messages, source bytes; the last entry has no name. stdlib/nn/init.lua is module
-- moth.nn, stdlib/nn/linear.lua is moth.nn.linear. Sources are embedded as they are, so that
-- messages and help() have the right lines.

local escapes = { ["\\"] = "\\\\", ['"'] = '\\"', ["?"] = "\\?", ["\r"] = "\\r", ["\t"] = "\\t" }

local function quoted(line)
  return (line:gsub('[\\"?\r\t]', escapes):gsub("[^\32-\126]", function(c)
    return ("\\%03o"):format(c:byte())
  end))
end

local function module_name(path)
  local name = path:gsub("^.-stdlib/", ""):gsub("%.lua$", ""):gsub("/init$", ""):gsub("/", ".")
  return "moth." .. name
end

local function emit(index, path)
  local file = assert(io.open(path, "rb"))
  local source = file:read("a")
  file:close()
  io.write(("static const char source%d[] ="):format(index))
  if source == "" then io.write(' ""') end
  for line, newline in source:gmatch("([^\n]*)(\n?)") do
    if line ~= "" or newline ~= "" then
      io.write('\n  "', quoted(line), newline ~= "" and "\\n" or "", '"')
    end
  end
  io.write(";\n")
  return #source
end

io.write("/* Made by lua/embed.lua. */\n#include <stddef.h>\n\n")
io.write("struct mt_stdlib_file {\n  const char *name, *path, *source;\n  size_t size;\n};\n")
io.write("extern const struct mt_stdlib_file mt_stdlib[];\n\n")

local entries = {}
for i, path in ipairs(arg) do
  local size = emit(i, path)
  local short = path:gsub("^.-stdlib/", "")
  entries[i] = ('  {"%s", "%s", source%d, %d},\n'):format(module_name(path), short, i, size)
end
io.write("\nconst struct mt_stdlib_file mt_stdlib[] = {\n")
io.write(table.concat(entries), "  {NULL, NULL, NULL, 0}};\n")
