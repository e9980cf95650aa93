-- The head of the beat: the usual one, of the only device of a user, known and live. Nothing is decided by it, so the whole
-- state need not be read. Whatever is not usual falls through to the step itself.
-- The layout's `renew` stands before; KEYS and ARGV are those of state.lua and beat.lua.
do
  local id, now, ttl = ARGV[9], tonumber(ARGV[2]), tonumber(ARGV[4])
  local value, count, status, info = unpack(redis.call('HMGET', KEYS[1], 'd:' .. id, 'n', 's', 'i:' .. id))
  if value and status and count == '1' then
    local node, epoch, deadline, connected = string.match(value, '^([^#]*)#([^|]*)|(%d+)|(.*)$')
    local held = epoch == ARGV[11] and (epoch == 'api' or node == ARGV[10])
    if held and tonumber(deadline) > now then
      local ends = string.format('%.0f', now + ttl)
      redis.call('HSET', KEYS[1], 'd:' .. id, node .. '#' .. epoch .. '|' .. ends .. '|' .. connected, 'until', ends)
      -- A key that somebody else has put in the layout's place is mended by the step.
      if pcall(renew, id, { node = node, connected = connected, info = info }, status, ttl) then return 1 end
    end
  end
end
