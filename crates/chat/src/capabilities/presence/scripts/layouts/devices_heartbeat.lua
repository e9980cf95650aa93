-- Layout `devices`: the JSON of one device, and what a heartbeat refreshes.
local function entry(device, status, refreshed)
  local text = '{"serverId":"' .. device.node .. '","connectedAt":"' .. device.connected .. '","refreshedAt":"' .. refreshed .. '"'
  if status ~= 'online' then text = text .. ',"status":"' .. status .. '"' end
  if device.info then text = text .. ',"device":' .. device.info end
  return text .. '}'
end

local function renew(id, device, status, left)
  if status == 'offline' then return end
  redis.call('HSET', KEYS[3], id, entry(device, status, ARGV[3]))
  redis.call('PEXPIRE', KEYS[3], left)
end
