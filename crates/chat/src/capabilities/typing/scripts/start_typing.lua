-- Records that a user is typing, or still is.
-- KEYS[1] typing:{conv}:{user}
-- KEYS[2] parlor:typing:{conv}
-- KEYS[3] parlor:typing:{conv}:names
-- ARGV[1] user
-- ARGV[2] display name, or ''
-- ARGV[3] now, ms
-- ARGV[4] end time, ms
-- ARGV[5] TTL of the keys, ms
-- ARGV[6] value of the documented key
-- ARGV[7] publish command
-- ARGV[8] channel of the conversation
-- ARGV[9] frame
-- Reply: nothing
local typing_key, index, names = KEYS[1], KEYS[2], KEYS[3]
local user, name, now, ends_at, ttl, value = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local publish, channel, frame = ARGV[7], ARGV[8], ARGV[9]

-- More than one start can add, so the index shrinks to the users who are typing.
local MAX_PURGED = 100
local expired = redis.call('ZRANGEBYSCORE', index, '-inf', now, 'LIMIT', 0, MAX_PURGED)
if #expired > 0 then
  redis.call('ZREM', index, unpack(expired))
  redis.call('HDEL', names, unpack(expired))
end

-- A key of another service that ends later, or has a foreign type, stays: it says the same.
local current, remaining = redis.pcall('GET', typing_key), redis.call('PTTL', typing_key)
local is_replaced = not current or (type(current) == 'string' and remaining >= 0 and remaining <= tonumber(ttl))
if is_replaced then redis.call('SET', typing_key, value, 'PX', ttl) end
redis.call('ZADD', index, ends_at, user)
redis.call('PEXPIRE', index, ttl)
if name == '' then
  redis.call('HDEL', names, user)
else
  redis.call('HSET', names, user, name)
end
redis.call('PEXPIRE', names, ttl)
redis.call(publish, channel, frame)
return redis.status_reply('OK')
