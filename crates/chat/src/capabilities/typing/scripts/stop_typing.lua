-- Records that a user stopped typing. Publishes the frame only if the user was typing.
-- KEYS[1] typing:{conv}:{user}
-- KEYS[2] parlor:typing:{conv}
-- KEYS[3] parlor:typing:{conv}:names
-- ARGV[1] user
-- ARGV[2] now, ms
-- ARGV[3] publish command
-- ARGV[4] channel of the conversation
-- ARGV[5] frame
-- Reply: nothing
local typing_key, index, names = KEYS[1], KEYS[2], KEYS[3]
local user, now, publish, channel, frame = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]

local ends_at = tonumber(redis.call('ZSCORE', index, user) or 0)
local deleted_keys = redis.call('DEL', typing_key)
redis.call('ZREM', index, user)
redis.call('HDEL', names, user)
if ends_at > now or deleted_keys == 1 then redis.call(publish, channel, frame) end
return redis.status_reply('OK')
