-- Raises the epoch, whatever the origin.
-- KEYS[1]  hash: epoch, origin
-- ARGV[1]  now, in milliseconds
-- ARGV[2]  the highest epoch the caller has seen
-- Reply    the epoch
local epoch = tonumber(redis.call('HGET', KEYS[1], 'epoch') or '0')
local text = string.format('%.0f', math.max(epoch + 1, tonumber(ARGV[2]) + 1, tonumber(ARGV[1])))
redis.call('HSET', KEYS[1], 'epoch', text)
return text
