-- Turns Lua's globals into the globals of a Redis 7.0 script. Runs once per Lua state. Parameters: the host functions,
-- and the table of globals. Returns the globals that scripts see.
local host, globals = ...
local error, next, pcall, setmetatable, type, xpcall = error, next, pcall, setmetatable, type, xpcall
local concat, resume = table.concat, coroutine.resume
local caught, compile = host.caught, host.compile

local allowed = {}
for name in ([[ARGV KEYS _G _VERSION assert bit cjson collectgarbage coroutine error gcinfo getmetatable ipairs load
  loadstring math next pairs pcall rawequal rawget rawset redis select setmetatable string table tonumber tostring
  type unpack xpcall]]):gmatch("%S+") do
  allowed[name] = true
end
for name in next, globals do
  if not allowed[name] then globals[name] = nil end
end

-- An error of a host function is a userdata value of the host. A script gets the error that Redis would raise instead.
-- The error that stops a script is raised again, so that no script can catch it.
local function settle(ok, fault, ...)
  if ok then return true, fault, ... end
  if type(fault) == "userdata" then
    local seen = caught(fault)
    if seen == nil then error(fault, 0) end
    fault = seen
  end
  return false, fault
end

local function flat(ok, fault, ...)
  if not ok and type(fault) == "table" and type(fault.err) == "string" then fault = fault.err end
  return ok, fault, ...
end

function globals.pcall(...)
  return flat(settle(pcall(...)))
end

function globals.xpcall(run, handle)
  return settle(xpcall(run, function(fault)
    if type(fault) == "userdata" then
      local seen = caught(fault)
      if seen == nil then return fault end
      fault = seen
    end
    return handle(fault)
  end))
end

globals.coroutine.resume = function(...)
  return settle(resume(...))
end

function globals.load(read, name)
  local pieces = {}
  while true do
    local piece = read()
    if piece == nil or piece == "" then break end
    pieces[#pieces + 1] = piece
  end
  return compile(concat(pieces), name or "=(load)")
end

globals.loadstring = host.loadstring
globals.rawget = host.rawget
globals.rawset = host.rawset
globals.setmetatable = host.setmetatable

globals.collectgarbage = host.collectgarbage

-- Lua 5.1 has no read-only tables, so scripts get an empty proxy in front of each table.
local function freeze(library)
  local front = setmetatable({}, { __index = library, __newindex = host.refuse, __metatable = false })
  host.protect(front, library)
  return front
end

local strings = getmetatable("")
for _, name in next, { "bit", "cjson", "coroutine", "math", "redis", "string", "table" } do
  globals[name] = freeze(globals[name])
end
strings.__metatable = freeze({ __index = globals.string })

local front = freeze(globals)
globals._G = front
setmetatable(globals, { __index = host.missing })
return front
