-- Layout `status`: what a heartbeat refreshes.
local function refresh_layout(_, _, status, left)
  if status ~= 'offline' then redis.call('SET', KEYS[3], 'online', 'PX', left) end
end
