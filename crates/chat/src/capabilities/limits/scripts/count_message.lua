-- Counts one message of a user if the window has room.
-- KEYS[1] rate:message:{user}
-- ARGV[1] messages per window
-- ARGV[2] window, ms
-- Reply: { allowed 1 or 0, limit, remaining, ms until the limit is completely free, ms until a message fits or -1 }
local key, limit, window = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])

local text = redis.call('GET', key) or '0'
if not string.find(text, '^%-?%d+$') then
  return redis.error_reply('ERR ' .. key .. ' is not a counter; delete it')
end
local used, ms_left = tonumber(text), redis.call('PTTL', key)
-- In its last millisecond a key still exists, but its window is over.
if used <= 0 or ms_left == 0 then used, ms_left = 0, 0 end

local allowed = used < limit
if allowed and used == 0 then
  redis.call('SET', key, '1', 'PX', ARGV[2])
  ms_left = window
elseif allowed then
  redis.call('INCR', key)
end
if allowed then used = used + 1 end
if ms_left == -1 then
  redis.call('PEXPIRE', key, ARGV[2])
  ms_left = window
end
return { allowed and 1 or 0, limit, math.max(0, limit - used), ms_left, allowed and -1 or math.max(1, ms_left) }
