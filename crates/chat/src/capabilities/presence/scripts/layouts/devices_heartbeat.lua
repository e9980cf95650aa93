-- Layout `devices`: the JSON of one device, and what a heartbeat refreshes.
local KEEPS_STATE = false

local function device_json(device, status, refreshed)
  local text = '{"serverId":"' .. device.node .. '","connectedAt":"' .. device.connected .. '","refreshedAt":"' .. refreshed .. '"'
  if status ~= 'online' then text = text .. ',"status":"' .. status .. '"' end
  if device.info then text = text .. ',"device":' .. device.info end
  return text .. '}'
end

-- Extends the TTL of a hash that may have fields of other services: never shortens it, and sets none on a hash without.
local function extend_shared_ttl(left)
  local remaining = redis.call('PTTL', KEYS[3])
  if remaining >= 0 and remaining < left then redis.call('PEXPIRE', KEYS[3], left) end
end

local function refresh_layout(id, device, status, left)
  if status == 'offline' then return true end
  redis.call('HSET', KEYS[3], id, device_json(device, status, ARGV[3]))
  if redis.call('HLEN', KEYS[3]) > 1 then
    extend_shared_ttl(left)
  else
    redis.call('PEXPIRE', KEYS[3], left)
  end
  return true
end

local function extend_external_lease() end
