--- `make bench`: one table of Moth's speed, beside PyTorch's where it is installed.
--
-- usage: moth tests/perf/run.lua [--threads N] [--only TEXT]
-- PyTorch runs with a heap that keeps its pages, so that page faults do not flatter Moth; both use
-- the same number of threads. The ratio says how many times faster Moth is.

local here = arg[0]:match("^(.*)/") or "."
package.path = here .. "/?.lua;" .. package.path
local moth = require "moth"
local bench = require "bench"

local python = os.getenv("PYTHON") or "python3"
local threads, only = 1, nil
for i = 1, #arg, 2 do
  if arg[i] == "--threads" then threads = math.tointeger(tonumber(arg[i + 1]))
  elseif arg[i] == "--only" then only = arg[i + 1] end
end

local KEEP = "GLIBC_TUNABLES=glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184:"
  .. "glibc.malloc.hugetlb=1 "

local function shell(command)
  local pipe = io.popen(command)
  local text = pipe:read("a")
  pipe:close()
  return text
end

local function peer()
  local seconds = {}
  if os.getenv("MOTH_BENCH_ALONE") then return seconds end
  if not shell(python .. " -c 'import torch' 2>&1 && echo yes"):find("yes") then return seconds end
  local text = shell(("%s OMP_NUM_THREADS=%d %s %s/peer.py %d %s 2>/dev/null"):format(
    KEEP, threads, python, here, threads, only and ("'" .. only .. "'") or ""))
  for name, s in text:gmatch("(%S+)\t(%S+)\n") do seconds[name] = tonumber(s) end
  return seconds
end

local function show(s)
  if s < 1e-6 then return ("%.0f ns"):format(s * 1e9) end
  if s < 1e-3 then return ("%.2f us"):format(s * 1e6) end
  if s < 1 then return ("%.2f ms"):format(s * 1e3) end
  return ("%.2f s"):format(s)
end

--- Wall time and resident memory of an interpreter that does nothing.
local function process(command)
  local best = math.huge
  for _ = 1, 7 do
    local t = moth.io.clock()
    os.execute(command .. " >/dev/null 2>&1")
    best = math.min(best, moth.io.clock() - t)
  end
  return best
end

local function resident(program)
  local code = [[for l in io.lines('/proc/self/status') do local k = l:match('VmRSS:%s*(%d+)')
    if k then print(k) end end]]
  return tonumber(shell(("%s -e \"%s\""):format(program, code)) or "")
end

require "workloads"
local theirs = peer()
moth.set_num_threads(threads)
print(("%-36s %12s %12s %8s   (%d thread%s)"):format("workload", "Moth", "PyTorch", "ratio",
  threads, threads == 1 and "" or "s"))
bench.run(only, 0.6, function(name, s)
  local t = theirs[name]
  print(("%-36s %12s %12s %8s"):format(name, show(s), t and show(t) or "-",
    t and ("%.2f"):format(t / s) or "-"))
end)
if not only then
  local program = arg[-1] or "build/moth"
  print(("%-36s %12s"):format("process/start (moth -e '')", show(process(program .. " -e ''"))))
  local kb = resident(program)
  if kb then print(("%-36s %9.1f MB"):format("process/resident memory", kb / 1024)) end
end
