-- Raises the epoch, whatever the origin.
-- KEYS[1]  hash with the fields `epoch` and `origin`
-- ARGV[1]  current time in ms since the Unix epoch
-- ARGV[2]  highest epoch that the caller knows
-- Reply    the new epoch
local epoch = tonumber(redis.call('HGET', KEYS[1], 'epoch') or '0')
local text = string.format('%.0f', math.max(epoch + 1, tonumber(ARGV[2]) + 1, tonumber(ARGV[1])))
redis.call('HSET', KEYS[1], 'epoch', text)
return text
