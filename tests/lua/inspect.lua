-- moth.inspect: what the prompt shows for a value.

local check = require "check"
local moth = require "moth"
local inspect = moth.inspect

check.test("plain values", function()
  check.equal(inspect(1), "1")
  check.equal(inspect(1.0), "1.0")
  check.equal(inspect(nil), "nil")
  check.equal(inspect("a\n\"b\"\0"), [["a\n\"b\"\x00"]])
  check.equal(inspect(print), "<function>")
  check.raises("value expected", inspect)
end)

check.test("tables: positions first, then sorted keys", function()
  check.equal(inspect {}, "{}")
  check.equal(inspect { 1, 2, "x", { true } }, '{1, 2, "x", {true}}')
  check.equal(inspect { b = 1, a = 2, [10] = 3, [false] = 4, ["a b"] = 5, ["end"] = 6, 7 },
    '{7, [10] = 3, a = 2, ["a b"] = 5, b = 1, ["end"] = 6, [false] = 4}')
end)

check.test("long tables break lines, longer ones are cut", function()
  local numbers, words = {}, {}
  for i = 1, 150 do numbers[i], words[i] = i, "word" .. i end
  local text = inspect(numbers)
  check.that(text:find "50 more", "cut")
  check.that(text:find "\n  1, 2, 3", "numbers fill lines")
  for line in text:gmatch "[^\n]+" do check.that(#line <= 80, "lines fit") end
  text = inspect(words)
  check.that(text:find '\n  "word1",\n  "word2",\n', "one word a line")
  local keys = {}
  for i = 1, 150 do keys[("key%03d"):format(i)] = i end
  text = inspect(keys)
  check.that(text:find "key001 = 1,\n  key002 = 2", "sorted")
  check.that(text:find "50 more", "cut")
end)

check.test("cycles and depth end", function()
  local a = { name = "a" }
  a.self = a
  a.list = { a, {} }
  check.equal(inspect(a),
    '{list = {<this table again>, {}}, name = "a", self = <this table again>}')
  local shared = { 1 }
  check.equal(inspect { shared, shared }, "{{1}, {1}}")
  local deep = {}
  for _ = 1, 1000 do deep = { deep } end
  check.equal(inspect(deep), "{{{{{{...}}}}}}")
end)

check.test("objects speak for themselves, tensors in tables are short", function()
  local object = setmetatable({}, { __tostring = function() return "an object" end })
  check.equal(inspect { object }, "{an object}")
  check.equal(inspect { w = moth.zeros(2, 3), s = moth.tensor(2.5) },
    "{s = tensor(2.5000), w = <tensor float32 (2, 3)>}")
  local broken = setmetatable({}, { __tostring = function() error "no text" end })
  check.raises("no text", inspect, { broken })
end)

check.done()
