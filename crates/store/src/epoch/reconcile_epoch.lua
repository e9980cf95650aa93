-- Reconciles the epoch: raises it once for each origin, however many nodes notice the change.
-- KEYS[1]  hash with the fields `epoch` and `origin`
-- ARGV[1]  current origin of the data (the server processes that hold it)
-- ARGV[2]  current time in ms since the Unix epoch
-- ARGV[3]  highest epoch that the caller knows
-- Reply    {epoch, 1 if this call raised it, else 0}
local key, origin, now, caller_epoch = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local stored = redis.call('HMGET', key, 'epoch', 'origin')
local epoch = tonumber(stored[1] or '0')
if epoch > 0 and epoch >= caller_epoch and stored[2] == origin then
  return {string.format('%.0f', epoch), 0}
end
epoch = math.max(epoch + 1, caller_epoch + 1, now)
local text = string.format('%.0f', epoch)
redis.call('HSET', key, 'epoch', text, 'origin', origin)
return {text, 1}
