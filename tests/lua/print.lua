-- tostring of tensors: PyTorch's layout, with shape, dtype and device behind.

local check = require "check"
local moth = require "moth"

local function shows(t, text) check.equal(tostring(t), text) end

check.test("whole numbers end with a point, others have four digits", function()
  shows(moth.tensor { 1.0, 2.0 }, "tensor([1., 2.], size=(2), dtype=float32, device=cpu)")
  shows(moth.tensor { { 1.0, -2.5 }, { 3.25, 4.0 } },
    "tensor([[ 1.0000, -2.5000],\n        [ 3.2500,  4.0000]], "
      .. "size=(2, 2), dtype=float32, device=cpu)")
  shows(moth.tensor { 1, -20, 300 }, "tensor([  1, -20, 300], size=(3), dtype=int64, device=cpu)")
  shows(moth.tensor { true, false }, "tensor([ true, false], size=(2), dtype=bool, device=cpu)")
end)

check.test("numbers of very different size are scientific", function()
  shows(moth.tensor { 1e-6, 1.0 },
    "tensor([1.0000e-06, 1.0000e+00], size=(2), dtype=float32, device=cpu)")
  shows(moth.tensor({ 1e9, 1.0 }, { dtype = "float64" }),
    "tensor([1.0000e+09, 1.0000e+00], size=(2), dtype=float64, device=cpu)")
  shows(moth.tensor { 0.5, 500.0 },
    "tensor([  0.5000, 500.0000], size=(2), dtype=float32, device=cpu)")
end)

check.test("nan and infinities keep columns aligned", function()
  shows(moth.tensor { { 1.0, 0 / 0 }, { math.huge, -math.huge } },
    "tensor([[  1.,  nan],\n        [ inf, -inf]], size=(2, 2), dtype=float32, device=cpu)")
  shows(moth.tensor { 0.0, 0 / 0 }, "tensor([ 0., nan], size=(2), dtype=float32, device=cpu)")
end)

check.test("scalars say only what surprises", function()
  shows(moth.tensor(0.5), "tensor(0.5000)")
  shows(moth.tensor(3), "tensor(3)")
  shows(moth.tensor(true), "tensor(true)")
  shows(moth.tensor(2.0, { dtype = "float64" }), "tensor(2., dtype=float64)")
  shows(moth.tensor(-1e-10), "tensor(-1.0000e-10)")
end)

check.test("gradients are told", function()
  local x = moth.tensor(2.0):requires_grad_()
  shows(x, "tensor(2., requires_grad=true)")
  shows(x * 2, "tensor(4., grad_fn=<mul>)")
end)

check.test("empty tensors", function()
  shows(moth.zeros(0), "tensor([], size=(0), dtype=float32, device=cpu)")
  shows(moth.zeros(0, 3), "tensor([], size=(0, 3), dtype=float32, device=cpu)")
end)

check.test("rows wrap at the line width, suffixes too", function()
  local text = tostring(moth.arange(1, 41))
  for line in text:gmatch "[^\n]+" do check.that(#line <= 80, line) end
  check.that(text:find ", 18,\n        19, 20", text)
  shows(moth.zeros(1, 10) + 0.25,
    "tensor([[0.2500, 0.2500, 0.2500, 0.2500, 0.2500, 0.2500, 0.2500, "
    .. "0.2500, 0.2500,\n         0.2500]], size=(1, 10), dtype=float32, device=cpu)")
  text = tostring(moth.arange(1, 19))
  check.that(text:find "\n       size=%(18%), dtype=int64, device=cpu%)$", text)
end)

check.test("more than a thousand elements are summarised", function()
  shows(moth.arange(1, 1002),
    "tensor([   1,    2,    3,  ...,  999, 1000, 1001], "
      .. "size=(1001), dtype=int64,\n       device=cpu)")
  local text = tostring(moth.zeros(10, 1000))
  local rows = select(2, text:gsub("%[0%., 0%., 0%.,  %.%.%., 0%., 0%., 0%.%]", ""))
  check.equal(rows, 6)
  check.that(text:find "\n        %.%.%.,\n", text)
  check.that(#tostring(moth.zeros(200, 200, 200)) < 3000, "short")
end)

check.test("slices of higher dims are set apart by empty lines", function()
  shows(moth.tensor { { { 1 } }, { { 2 } } },
    "tensor([[[1]],\n\n        [[2]]], size=(2, 1, 1), dtype=int64, device=cpu)")
end)

check.test("views print what they show", function()
  local x = moth.arange(1, 7):reshape(2, 3)
  shows(x:t(), "tensor([[1, 4],\n        [2, 5],\n        [3, 6]], "
    .. "size=(3, 2), dtype=int64, device=cpu)")
  shows(moth.ones(1):expand(3), "tensor([1., 1., 1.], size=(3), dtype=float32, device=cpu)")
end)

check.test("options", function()
  local x = moth.tensor { 0.123456789, 1.0 }
  moth.set_printoptions { precision = 2 }
  check.that(tostring(x):find "%[0%.12, 1%.00%]", "precision")
  moth.set_printoptions { precision = 4, sci_mode = true }
  check.that(tostring(x):find "1%.2346e%-01", "sci_mode")
  moth.set_printoptions { sci_mode = "auto", threshold = 5, edgeitems = 1 }
  check.that(tostring(moth.arange(1, 11)):find "%[ 1,  %.%.%., 10%]", "edgeitems")
  moth.set_printoptions { threshold = 1000, edgeitems = 3, linewidth = 80 }
  check.raises("precision", moth.set_printoptions, { precision = -1 })
  check.raises("edgeitems", moth.set_printoptions, { edgeitems = "many" })
end)

check.test("a freed tensor says so", function()
  local x = moth.ones(3)
  x:free()
  shows(x, "tensor(freed)")
end)

check.done()
