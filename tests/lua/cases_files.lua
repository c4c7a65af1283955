-- Files: tensors survive, views stay small, hostile files are refused before anything is allocated.

local check = require "check"
local moth = require "moth"

local path = os.tmpname()

local function write(bytes)
  local f = assert(io.open(path, "wb"))
  f:write(bytes)
  f:close()
end

local function size_of_file()
  local f = assert(io.open(path, "rb"))
  local n = f:seek("end")
  f:close()
  return n
end

local function safetensors(header, data, length)
  write(string.pack("<I8", length or #header) .. header .. (data or ""))
end

local function refuses(pattern, header, data, length)
  safetensors(header, data, length)
  return check.raises(pattern, moth.load, path)
end

check.test("all dtypes, shapes and the metadata come back", function()
  local names = {
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8",
    "bool", "complex64",
  }
  local saved = {}
  for i, dtype in ipairs(names) do saved[dtype] = (moth.arange(6):reshape(2, 3) + i):to(dtype) end
  saved.scalar, saved.none, saved["a.b/c \"d\""] = moth.tensor(7), moth.zeros(2, 0), moth.ones(1)
  moth.save(saved, path, { metadata = { epoch = 3, note = "first" } })
  local loaded, notes = moth.load(path)
  check.equal(notes, { epoch = "3", note = "first" })
  local n = 0
  for name, t in pairs(loaded) do
    n = n + 1
    check.equal(t.dtype, saved[name].dtype)
    check.equal(t.shape, saved[name].shape)
    if name ~= "complex64" then check.equal(t, saved[name]) end
  end
  check.equal(n, #names + 3)
end)

check.test("state dicts: the order of the names is kept", function()
  local model = moth.nn.Sequential(moth.nn.Linear(3, 4), moth.nn.BatchNorm1d(4))
  moth.save(model:state_dict(), path)
  local want, got = {}, {}
  for name in pairs(model:state_dict()) do want[#want + 1] = name end
  local loaded = moth.load(path)
  for name in pairs(loaded) do got[#got + 1] = name end
  check.equal(got, want)
  local other = moth.nn.Sequential(moth.nn.Linear(3, 4), moth.nn.BatchNorm1d(4))
  other:load_state_dict(loaded)
  local x = moth.randn(5, 3)
  check.equal(other:eval()(x), model:eval()(x))
end)

check.test("a view writes its own elements only", function()
  local x = moth.arange(100000):to("float32")
  moth.save({ part = x[{ { 1, 10 } }] }, path)
  check.that(size_of_file() < 400, size_of_file())
  check.equal(moth.load(path).part, x[{ { 1, 10 } }])
  moth.save({ odd = x[{ { 1, 10, 2 } }], grid = x[{ { 1, 6 } }]:reshape(2, 3):t() }, path)
  check.equal(moth.load(path).odd, { 0, 2, 4, 6, 8 })
  check.equal(moth.load(path).grid, { { 0, 3 }, { 1, 4 }, { 2, 5 } })
end)

check.test("the same tensors give the same bytes; a failed save leaves the old file", function()
  local function bytes()
    local f = assert(io.open(path, "rb"))
    local text = f:read("a")
    f:close()
    return text
  end
  local t = { b = moth.ones(2), a = moth.zeros(3), c = moth.tensor { 1 } }
  moth.save(t, path)
  local first = bytes()
  moth.save({ c = t.c, a = t.a, b = t.b }, path)
  check.equal(bytes() == first, true)
  check.raises("expected a tensor at 'x'", moth.save, { x = 1 }, path)
  check.raises("names as keys", moth.save, { moth.ones(1) }, path)
  check.equal(bytes() == first, true)
  check.raises("No such file", moth.save, t, path .. ".d/none/file")
end)

check.test("arguments are named", function()
  check.raises("'path' to load", moth.load)
  check.raises("'path' to save", moth.save, {}, 7 == 8)
  check.raises("'tensors' to save", moth.save, moth.ones(1), path)
  check.raises("metadata", moth.save, {}, path, { comment = "x" })
  check.raises("No such file", moth.load, path .. ".not")
  check.raises("regular file", moth.load, "/dev/null")
  check.raises("regular file", moth.load, ".")
end)

local good = '"dtype":"F32","shape":[1],"data_offsets":[0,4]'

check.test("safetensors: lengths that lie", function()
  refuses("header", "{}", "", 2 ^ 40 | 0)
  refuses("header", "{}", "", math.mininteger)
  refuses("'{'", '["a"]')
  refuses("not valid", '{"a":')
  refuses("not valid", "{\"a\":1}\0\0x")
  write("short")
  check.raises("ends within", moth.load, path)
  write("")
  check.raises("ends within", moth.load, path)
end)

check.test("safetensors: shapes that do not fit their bytes name the tensor", function()
  refuses("'w'", '{"w":{"dtype":"F32","shape":[1000,1000],"data_offsets":[0,4]}}', "1234")
  refuses("'w'.*too large",
    '{"w":{"dtype":"F32","shape":[8589934592,8589934592],"data_offsets":[0,0]}}')
  refuses("'w'.*too large",
    '{"w":{"dtype":"F32","shape":[0,8589934592,8589934592],"data_offsets":[0,0]}}')
  refuses("'w'", '{"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}', "1234")
  refuses("'w'", '{"w":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}}', "1234")
  refuses("'w'", '{"w":{"dtype":"F32","shape":4,"data_offsets":[0,4]}}', "1234")
  refuses("'w'", '{"w":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}}', "1234")
end)

check.test("safetensors: offsets that lie", function()
  local function offsets(text, data)
    local header = '{"w":{"dtype":"F32","shape":[1],"data_offsets":' .. text .. "}}"
    refuses("'w'", header, data or "1234")
  end
  offsets("[-4,0]")
  offsets("[16,8]")
  offsets("[0,4,8]")
  offsets("[0]")
  offsets("[4,8]", "12345678")
  offsets("[0,4.0]")
  refuses("not valid", '{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,9223372036854775808]}}')
  refuses("'w'", '{"w":{' .. good .. "}}", "12")
  refuses("take 4 bytes", '{"w":{' .. good .. "}}", "12345")
end)

check.test("safetensors: tensors over each other, twice the same name, unknown dtypes", function()
  refuses("over those of another", '{"a":{' .. good .. '},"b":{' .. good .. "}}", "1234")
  refuses("duplicate", '{"a":{' .. good .. '},"a":{' .. good .. "}}", "1234")
  refuses("'w'.*F7", '{"w":{"dtype":"F7","shape":[1],"data_offsets":[0,4]}}', "1234")
  refuses("'w'", '{"w":{"shape":[1],"data_offsets":[0,4]}}', "1234")
  refuses("'w'", '{"w":3}')
  refuses("__metadata__", '{"__metadata__":{"a":1}}')
  refuses("not valid", ("["):rep(100000):gsub("^.", "{\"a\":["))
end)

check.test("bools in a file are true or false, whatever the byte", function()
  safetensors('{"w":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}}', "\0\1\255")
  check.equal(moth.load(path).w, { false, true, true })
  check.equal(moth.load(path).w:to("uint8"), { 0, 1, 1 })
end)

check.test("IDX files: contents, and headers that lie", function()
  local head = string.pack(">BBBBI4I4", 0, 0, 8, 2, 2, 3)
  write(head .. "\1\2\3\4\5\255")
  check.equal(moth.io.read_idx(path), { { 1, 2, 3 }, { 4, 5, 255 } })
  check.equal(moth.io.read_idx(path).dtype, "uint8")
  write(string.pack(">BBBBI4i2i2", 0, 0, 11, 1, 2, 1000, -2))
  check.equal(moth.io.read_idx(path), { 1000, -2 })
  write(head .. "\1\2\3")
  check.raises("promises", moth.io.read_idx, path)
  write(head .. "\1\2\3\4\5\6\7")
  check.raises("promises", moth.io.read_idx, path)
  write(string.pack(">BBBBI4I4I4", 0, 0, 8, 3, 0xffffffff, 0xffffffff, 0xffffffff))
  check.raises("promises", moth.io.read_idx, path)
  write(string.pack(">BBBB", 0, 0, 8, 200))
  check.raises("dimensions", moth.io.read_idx, path)
  write("\1\2\3\4\5")
  check.raises("not an IDX file", moth.io.read_idx, path)
  write("\0\0\8")
  check.raises("ends within", moth.io.read_idx, path)
end)

check.test("gzipped IDX: contents; a stream that is cut or damaged", function()
  local digits = "samples/data/mnist/t10k-labels-idx1-ubyte.gz"
  if not moth.io.exists(digits) then return end
  local labels = moth.io.read_idx(digits)
  check.that(labels:numel() >= 1000 and labels:max():item() == 9)
  local f = assert(io.open(digits, "rb"))
  local bytes = f:read("a")
  f:close()
  write(bytes:sub(1, #bytes // 2))
  check.raises("", moth.io.read_idx, path)
  write(bytes:sub(1, 300) .. ("\0"):rep(50) .. bytes:sub(351))
  check.raises("", moth.io.read_idx, path)
end)

check.test("a small gzip file cannot promise gigabytes", function()
  -- 20 bytes of gzip, stored: an IDX header for 4 GiB.
  local head = string.pack(">BBBBI4", 0, 0, 8, 1, 0xf0000000)
  local crc = 0xffffffff
  for i = 1, #head do
    crc = crc ~ head:byte(i)
    for _ = 1, 8 do crc = crc & 1 == 1 and crc >> 1 ~ 0xedb88320 or crc >> 1 end
  end
  crc = crc ~ 0xffffffff
  write("\31\139\8\0\0\0\0\0\0\3" .. string.pack("<BI2I2", 1, #head, 0xffff ~ #head) .. head
    .. string.pack("<I4I4", crc, #head))
  check.raises("promises", moth.io.read_idx, path)
end)

check.test("io: exists, isatty, clock", function()
  check.equal(moth.io.exists("Makefile"), true)
  check.equal(moth.io.exists(path .. ".no"), false)
  check.equal(type(moth.io.isatty(1)), "boolean")
  check.raises("'fd' to isatty", moth.io.isatty, "x")
  local t = moth.io.clock()
  check.that(moth.io.clock() >= t)
end)

os.remove(path)
check.done()
