-- Layout `sockets`: a flag and the set of live sockets, both without TTL. The set is kept while the user is invisible.
-- KEYS[3] user:{user}:online
-- KEYS[4] user:{user}:sockets
local flag_key, set_key = KEYS[3], KEYS[4]

function write_layout(view)
  if #removed_ids > 0 then redis.call('SREM', set_key, unpack(removed_ids)) end
  for id in pairs(added_ids) do
    redis.call('SADD', set_key, id)
  end
  if view.latest == 0 then redis.call('DEL', set_key) end
  if view.crossed_offline or next(added_ids) then
    redis.call('SET', flag_key, view.visible == 'offline' and 'false' or 'true')
  end
end
