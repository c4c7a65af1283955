-- help() and completion.

local check = require "check"
local moth = require "moth"

local function text_of(...)
  local said = {}
  local old = print
  print = function(s) said[#said + 1] = s end
  moth.help(...)
  print = old
  return table.concat(said, "\n")
end

check.test("an operation: usage, forms and help, however it is named", function()
  local text = text_of(moth.softmax)
  check.that(text:find("moth.softmax(", 1, true), text)
  check.that(text:find "x:softmax%(", text)
  for _, what in ipairs { "softmax", "moth.softmax", "x:softmax", moth.zeros(1).softmax } do
    check.equal(text_of(what), text)
  end
  check.that(text_of("relu_"):find "in place", "the in-place form")
end)

check.test("every function of moth and every method has help", function()
  for name, f in pairs(moth) do
    if type(f) == "function" then
      check.that(not text_of(f):find "without help", "moth." .. name)
    end
  end
  for name, f in pairs(moth._C.methods) do
    check.that(not text_of(f):find "without help", "x:" .. name)
  end
end)

check.test("Lua functions: the comment above them", function()
  -- Adds two numbers.
  ---@param a number the first
  ---@return number
  local function add(a, b, ...) return a + b, ... end
  local text = text_of(add)
  check.that(text:find("(a, b, ...)", 1, true), text)
  check.that(text:find "Adds two numbers%.", text)
  check.that(text:find "a number the first", text)
  local function bare() end
  check.that(text_of(bare):find "%(%)", "no comment is no error")
  local liar = load("return function() end", "@/etc/passwd")()
  check.that(not text_of(liar):find "root", "only comments of sources are shown")
end)

check.test("classes and modules of the standard library", function()
  local text = text_of "nn.Linear"
  check.that(text:find("nn.Linear(in_features, out_features, bias=true", 1, true), text)
  check.that(text:find "x W'", "the comment of the class")
  check.that(text:find "reset_parameters", "its methods")
  check.that(text_of(require "moth.nn"):find "moth%.nn holds:", "a module")
  check.that(text_of "normal_":find "^x:normal_%(float mean", "a method with another name inside")
  check.that(text_of "copy_":find "^x:copy_%(tensor src%)", "what exists in place only")
end)

check.test("overview, tensors, tables, unknown names", function()
  check.that(text_of():find "softmax", "overview")
  check.that(text_of(moth.ones(1)):find "softmax", "methods")
  check.that(text_of({ alpha = 1 }):find "alpha", "tables")
  check.that(text_of("no_such_name"):find "nothing is called", "unknown")
  check.that(text_of("exponential"):find "exp", "similar ones")
  check.that(text_of("string.format"):find "C function", "globals")
  check.that(text_of(""):find "nothing is called", "empty")
  check.that(text_of(1):find "number", "others")
end)

check.test("completion", function()
  local complete = moth._C.complete
  local function has(text, name)
    for _, candidate in ipairs(complete(text)) do if candidate == name then return true end end
    return false
  end
  some_tensor = moth.ones(2)
  some_table = setmetatable({ own = 1, call = print }, { __index = { inherited = print } })
  check.equal(complete "some_ten", { "some_tensor" })
  check.that(has("some_tensor:resh", "some_tensor:reshape"))
  check.that(has("moth.softm", "moth.softmax"))
  check.that(has("moth.n", "moth.nn"))
  check.that(has("some_table.", "some_table.own"))
  check.that(has("some_table.", "some_table.inherited"))
  check.that(not has("some_table:", "some_table:own"))
  check.that(has("some_table:", "some_table:call"))
  check.that(has("string.fo", "string.format"))
  check.that(has("whi", "while"))
  check.that(not has("moth.", "moth._C"))
  check.that(has("moth._", "moth._C"))
  check.equal(complete "nothing.here.", {})
  check.equal(complete "some_table.own.x", {})
  some_trap = setmetatable({}, { __index = function() error "called" end })
  check.equal(complete "some_trap.field.x", {})
  some_tensor, some_table, some_trap = nil, nil, nil
end)

check.done()
