-- Layout `document`: the document, and what a heartbeat refreshes.
local function document()
  return '{"userId":"' .. ARGV[1] .. '","status":"online","lastSeen":' .. ARGV[2] .. '}'
end

local function renew(_, _, status, left)
  if status ~= 'offline' then redis.call('SET', KEYS[3], document(), 'PX', left) end
end
