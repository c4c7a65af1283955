--- Runs the golden vectors of a directory: every case of every manifest, each failure printed.
---
--- usage: moth tests/golden/run.lua [DIR] [--known FILE] [--only GROUP] [--case TEXT] [-v]
---
--- A case fails when it raises, differs, or needs an operation that is not there. FILE lists what
--- is known not to be there, one `name` or `group:id` a line with a reason behind it: a name
--- excuses that the operation is missing, never a wrong result. Nothing is skipped silently: the
--- last lines count what is known and what passed.
local here = arg[0]:match("^(.*)/") or "."
package.path = here .. "/?.lua;" .. package.path

local moth = require "moth"
local training = require "runner.training"
local random = require "runner.random"

local kinds = {
  program = require("runner.programs").run,
  module = require("runner.modules").run,
  optim = training.optim,
  sched = training.sched,
  random = random.random,
  seed = random.seed,
  init = random.init,
  default_init = random.default_init,
  fans = random.fans,
  gain = random.gain,
}
local ordinary = require("runner.ordinary").run

local groups = {
  "unary", "binary", "promotion", "reduce", "sort", "linalg", "shape", "index", "errors",
  "activation", "norm", "embed", "conv", "pool", "pad", "loss", "module", "optim", "sched",
  "random",
}

local options = { dir = here }

local function read_arguments()
  local i = 1
  while arg[i] do
    local a = arg[i]
    if a == "-v" then
      options.verbose = true
    elseif a == "--known" or a == "--only" or a == "--case" then
      i = i + 1
      options[a:sub(3)] = arg[i]
    else
      options.dir = a
    end
    i = i + 1
  end
end

local function read_known(path)
  local known = {}
  if not path then return known end
  for line in io.lines(path) do
    local name = line:match("^([^%s#]+)")
    if name then known[name] = true end
  end
  return known
end

local count = { run = 0, passed = 0, known = 0, stale = 0 }

local function report(group, case, problem)
  print(("FAILED %s:%s: %s"):format(group, case.id, tostring(problem)))
end

local function run_case(group, case, tensors, known)
  local run = case.kind and kinds[case.kind] or ordinary
  if case.kind and not kinds[case.kind] then
    count.run = count.run + 1
    return report(group, case, "no such kind of case: " .. case.kind)
  end
  local ok, problem = xpcall(run, function(e)
    return type(e) == "string" and options.verbose and debug.traceback(e, 2) or e
  end, case, tensors)
  local missing = not ok and type(problem) == "table" and problem.missing
  if missing then problem = "there is no " .. missing end
  local failed = not ok or problem ~= nil
  local excused = known[group .. ":" .. case.id] or missing and known[missing]
  if excused and failed then
    count.known = count.known + 1
    return
  end
  count.run = count.run + 1
  if failed then
    report(group, case, problem)
  else
    count.passed = count.passed + 1
    if options.verbose then print("passed " .. group .. ":" .. case.id) end
    if excused then count.stale = count.stale + 1 end
  end
end

local function run_group(group, known)
  local manifest = dofile(options.dir .. "/" .. group .. ".lua")
  local tensors = moth.load(options.dir .. "/" .. group .. ".safetensors")
  for _, case in ipairs(manifest) do
    if not options.case or case.id:find(options.case, 1, true) then
      run_case(group, case, tensors, known)
    end
  end
end

read_arguments()
local known = read_known(options.known)
for _, group in ipairs(groups) do
  if not options.only or options.only == group then run_group(group, known) end
end
if count.known > 0 then print(("%d cases need what is not there yet"):format(count.known)) end
if count.stale > 0 then print(("%d cases listed as known failures pass"):format(count.stale)) end
print(("%d of %d passed"):format(count.passed, count.run))
os.exit(count.passed == count.run and 0 or 1, true)
