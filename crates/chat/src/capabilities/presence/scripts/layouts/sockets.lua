-- Layout `sockets`: a flag and the set of live sockets, both without TTL. The set is kept while the user is invisible.
-- KEYS[3] user:{user}:online
-- KEYS[4] user:{user}:sockets
local flag_key, set_key = KEYS[3], KEYS[4]

function project(view)
  if #gone > 0 then redis.call('SREM', set_key, unpack(gone)) end
  for id in pairs(added) do
    redis.call('SADD', set_key, id)
  end
  if view.latest == 0 then redis.call('DEL', set_key) end
  if view.crossed or next(added) then
    redis.call('SET', flag_key, view.visible == 'offline' and 'false' or 'true')
  end
end
