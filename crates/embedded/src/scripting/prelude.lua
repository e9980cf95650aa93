-- Turns Lua's globals into the globals of a Redis 7.0 script. Runs once per Lua state. Parameters: the host functions,
-- and the table of globals. Returns the globals that scripts see.
local host, globals = ...
local error, next, pcall, setmetatable, type, xpcall = error, next, pcall, setmetatable, type, xpcall
local concat, resume = table.concat, coroutine.resume
local error_for_pcall, compile = host.error_for_pcall, host.compile

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
local function convert_or_rethrow(ok, err, ...)
  if ok then return true, err, ... end
  if type(err) == "userdata" then
    local visible = error_for_pcall(err)
    if visible == nil then error(err, 0) end
    err = visible
  end
  return false, err
end

local function error_table_to_text(ok, err, ...)
  if not ok and type(err) == "table" and type(err.err) == "string" then err = err.err end
  return ok, err, ...
end

function globals.pcall(...)
  return error_table_to_text(convert_or_rethrow(pcall(...)))
end

function globals.xpcall(run, handle)
  return convert_or_rethrow(xpcall(run, function(err)
    if type(err) == "userdata" then
      local visible = error_for_pcall(err)
      if visible == nil then return err end
      err = visible
    end
    return handle(err)
  end))
end

globals.coroutine.resume = function(...)
  return convert_or_rethrow(resume(...))
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
local function read_only(library)
  local proxy = setmetatable({}, { __index = library, __newindex = host.reject_write, __metatable = false })
  host.register_proxy(proxy, library)
  return proxy
end

local strings = getmetatable("")
for _, name in next, { "bit", "cjson", "coroutine", "math", "redis", "string", "table" } do
  globals[name] = read_only(globals[name])
end
strings.__metatable = read_only({ __index = globals.string })

local proxy = read_only(globals)
globals._G = proxy
setmetatable(globals, { __index = host.undefined_global })
return proxy
