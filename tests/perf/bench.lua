--- The benchmark harness: a workload is a name, a unit and a function that returns one repetition.
--
-- A measurement is the median of several samples, each of enough repetitions to last a few
-- milliseconds. Figures of one run may be compared with each other; machines drift between runs.

local moth = require "moth"

local M = { list = {} }
local clock = moth.io.clock

--- Declares a workload. `setup` returns the repetition and how many units it holds (default 1).
function M.workload(name, setup)
  M.list[#M.list + 1] = { name = name, setup = setup }
end

--- Median seconds per unit of f.
function M.measure(f, units, budget)
  f()
  local t = clock()
  f()
  local one = math.max(clock() - t, 1e-9)
  local inner = math.max(1, math.floor(0.005 / one))
  local samples, stop = {}, clock() + (budget or 0.6)
  repeat
    t = clock()
    for _ = 1, inner do f() end
    samples[#samples + 1] = (clock() - t) / inner
  until (clock() > stop and #samples >= 3) or #samples >= 25
  table.sort(samples)
  return samples[(#samples + 1) // 2] / units
end

--- Runs all workloads whose name contains `only`; calls report(name, seconds).
function M.run(only, budget, report)
  for _, w in ipairs(M.list) do
    if not only or w.name:find(only, 1, true) then
      local f, units = w.setup()
      report(w.name, M.measure(f, units or 1, budget))
      f = nil
      collectgarbage()
    end
  end
end

return M
