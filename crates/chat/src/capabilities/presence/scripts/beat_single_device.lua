-- Fast path in front of beat_device.lua: the heartbeat of the only device of a user, known and live. The visible status
-- cannot change, so the whole state need not be read. Every other case continues with beat_device.lua.
-- The layout's `refresh_layout` precedes; KEYS and ARGV are those of user_state.lua and beat_device.lua.
do
  local id, now, ttl = ARGV[9], tonumber(ARGV[2]), tonumber(ARGV[4])
  local value, count, status, info = unpack(redis.call('HMGET', KEYS[1], 'd:' .. id, 'n', 's', 'i:' .. id))
  if value and status and count == '1' then
    local node, boot_id, deadline, connected = string.match(value, '^([^#]*)#([^|]*)|(%d+)|(.*)$')
    local is_holder = boot_id == ARGV[11] and (boot_id == 'api' or node == ARGV[10])
    if is_holder and tonumber(deadline) > now then
      local new_deadline = string.format('%.0f', now + ttl)
      redis.call('HSET', KEYS[1], 'd:' .. id, node .. '#' .. boot_id .. '|' .. new_deadline .. '|' .. connected, 'until', new_deadline)
      -- A layout key of a foreign type is replaced by beat_device.lua.
      if pcall(refresh_layout, id, { node = node, connected = connected, info = info }, status, ttl) then return 1 end
    end
  end
end
