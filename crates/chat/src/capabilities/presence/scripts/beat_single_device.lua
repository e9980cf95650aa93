-- Fast path in front of beat_device.lua: the heartbeat of the only device of a user, known and live. The visible status
-- cannot change, so the whole state need not be read. Every other case continues with beat_device.lua.
-- The layout's heartbeat file precedes; KEYS and ARGV are those of user_state.lua and beat_device.lua.
do
  local id, now, ttl = ARGV[10], tonumber(ARGV[2]), tonumber(ARGV[4])
  local value, count, status, info, seen =
    unpack(redis.call('HMGET', KEYS[1], 'd:' .. id, 'n', 's', 'i:' .. id, 'seenMs'))
  if value and status and count == '1' then
    local node, boot_id, deadline, rest = string.match(value, '^([^#]*)#([^|]*)|(%d+)|(.*)$')
    local is_holder = boot_id == ARGV[12] and (boot_id == 'api' or node == ARGV[11])
    -- Once a minute a visible user's last seen time is due.
    local is_seen = status == 'offline' or (seen and now - tonumber(seen) < 60000)
    if is_holder and is_seen and tonumber(deadline) > now then
      local new_deadline = string.format('%.0f', now + ttl)
      local device = { node = node, connected = string.match(rest, '^[^|]*'), info = info }
      -- A key that another service has changed is left to beat_device.lua, and so is a key of a foreign type.
      local succeeded, refreshed = pcall(refresh_layout, id, device, status, ttl, tonumber(deadline))
      if succeeded and refreshed then
        redis.call('HSET', KEYS[1], 'd:' .. id, node .. '#' .. boot_id .. '|' .. new_deadline .. '|' .. rest, 'until', new_deadline)
        return 1
      end
    end
  end
end
