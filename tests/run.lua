--- Runs the tests, stage by stage, and adds up.
---
--- usage: lua tests/run.lua [--moth PROGRAM] [--build DIR] [--quick] STAGE...
---
---     c        the Check suites in one program (build/check)
---     lua      each file of tests/lua in a process of its own
---     ops      tests made from the rows of the operations (tests/lua/derived)
---     golden   reference vectors (tests/golden)
---     samples  each sample with --quick, and the C host
---
--- Everything that fails is shown in full. The last line is `N passed, N failed`. It needs nothing
--- of Moth itself, so that a broken build is reported as failures and not as silence.
local moth, build, quick = nil, "build", false
local stages = {}

do
  local i = 1
  while arg[i] do
    if arg[i] == "--moth" then
      i = i + 1
      moth = arg[i]
    elseif arg[i] == "--build" then
      i = i + 1
      build = arg[i]
    elseif arg[i] == "--quick" then
      quick = true
    else
      stages[#stages + 1] = arg[i]
    end
    i = i + 1
  end
  moth = moth or build .. "/moth"
end

local passed, failed = 0, 0
local failures = {}

local function quote(s) return "'" .. s:gsub("'", "'\\''") .. "'" end

local function list(pattern)
  local files = {}
  local pipe = io.popen("ls -1 " .. pattern .. " 2>/dev/null")
  for line in pipe:lines() do files[#files + 1] = line end
  pipe:close()
  return files
end

-- Starts a command whose output and status are read later.
local function start(command, seconds)
  return io.popen(("timeout -k 10 %d %s 2>&1 </dev/null; echo \"status $?\""):format(
    seconds, command))
end

local function finish(pipe)
  local text = pipe:read("a")
  pipe:close()
  local status = tonumber(text:match("status (%d+)\n$")) or -1
  return text:gsub("status %d+\n$", ""), status
end

local function count(name, good, bad, text)
  passed, failed = passed + good, failed + bad
  print(("%-40s %6d passed%s"):format(name, good, bad > 0 and (", %d failed"):format(bad) or ""))
  if bad > 0 then
    failures[#failures + 1] = name
    print((text:gsub("\n*$", "")))
  end
  io.stdout:flush()
end

-- How many tests a program says it ran: several forms of a last line.
local function totals(text, status)
  local good, bad
  for a, b in text:gmatch("(%d+) passed, (%d+) failed") do good, bad = a, b end
  if not good then
    for a, b in text:gmatch("(%d+) of (%d+) passed") do good, bad = a, b - a end
  end
  if not good then
    for n, f, e in text:gmatch("Checks: (%d+), Failures: (%d+), Errors: (%d+)") do
      good, bad = n - f - e, f + e
    end
  end
  if not good then
    for a, b in text:gmatch("(%d+) of (%d+) tests failed") do good, bad = b - a, a end
  end
  good = good or text:match("(%d+) tests passed") or (status == 0 and 1 or 0)
  bad = tonumber(bad) or 0
  if status ~= 0 and bad == 0 then bad = 1 end
  return math.tointeger(tonumber(good)), math.tointeger(bad)
end

local function run_all(jobs, seconds)
  local running = {}
  for i = 1, math.min(2, #jobs) do running[i] = start(jobs[i].command, seconds) end
  for i, job in ipairs(jobs) do
    local text, status = finish(running[i])
    if jobs[i + 2] then running[i + 2] = start(jobs[i + 2].command, seconds) end
    if status == 124 then text = text .. "\nstopped after " .. seconds .. " seconds\n" end
    local good, bad = totals(text, status)
    count(job.name, good, bad, text)
  end
end

local run = {}

function run.c()
  run_all({ { name = "c", command = "env MOTH=" .. quote(moth) .. " " .. build .. "/check" } }, 900)
end

function run.lua()
  local jobs = {}
  for _, file in ipairs(list("tests/lua/*.lua")) do
    if not file:find("/check.lua$") then
      jobs[#jobs + 1] = { name = file, command = ("env LUA_PATH='tests/lua/?.lua;;' %s %s"):format(
        quote(moth), file) }
    end
  end
  run_all(jobs, 600)
end

function run.ops()
  local command = quote(moth) .. " tests/lua/derived/run.lua"
  if quick then command = command .. " --quick" end
  run_all({ { name = "derived from rows", command = command } }, 900)
end

function run.golden()
  run_all({ { name = "golden", command = quote(moth)
    .. " tests/golden/run.lua --known tests/golden/known.txt" } }, 900)
end

function run.samples()
  local jobs = {}
  for _, file in ipairs(list("samples/*.lua")) do
    jobs[#jobs + 1] = { name = file, command = quote(moth) .. " " .. file .. " --quick" }
  end
  if #list(build .. "/host") > 0 then
    jobs[#jobs + 1] = { name = "samples/embed/host.c", command = build .. "/host" }
  end
  run_all(jobs, 300)
end

for _, stage in ipairs(stages) do
  if not run[stage] then error("no stage '" .. stage .. "'") end
  run[stage]()
end
if #failures > 0 then print("failed: " .. table.concat(failures, ", ")) end
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0 and passed > 0 and 0 or 1)
