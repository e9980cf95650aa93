-- Layout `devices`: the JSON of one device, and what a heartbeat refreshes.
local function device_json(device, status, refreshed)
  local text = '{"serverId":"' .. device.node .. '","connectedAt":"' .. device.connected .. '","refreshedAt":"' .. refreshed .. '"'
  if status ~= 'online' then text = text .. ',"status":"' .. status .. '"' end
  if device.info then text = text .. ',"device":' .. device.info end
  return text .. '}'
end

local function refresh_layout(id, device, status, left)
  if status == 'offline' then return end
  redis.call('HSET', KEYS[3], id, device_json(device, status, ARGV[3]))
  redis.call('PEXPIRE', KEYS[3], left)
end
