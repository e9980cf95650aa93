-- Layout `status`: one string. `offline` only if a connected user set it; a heartbeat does not renew it.
-- KEYS[3] user:status:{user}
local status_key = KEYS[3]

function write_layout(view)
  if view.latest == 0 then
    redis.call('DEL', status_key)
  elseif view.visible ~= 'offline' then
    redis.call('SET', status_key, 'online', 'PX', view.left)
  elseif view.changed then
    redis.call('SET', status_key, 'offline', 'PX', offline_ttl)
  end
end
