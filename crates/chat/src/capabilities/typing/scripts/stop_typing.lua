-- Records that a user stopped typing. Publishes the frame only if the user was typing. own_key.lua precedes.
-- KEYS[1] typing:{conv}:{user}
-- KEYS[2] parlor:typing:{conv}
-- KEYS[3] parlor:typing:{conv}:names
-- ARGV[1] user
-- ARGV[2] now, ms
-- ARGV[3] publish command
-- ARGV[4] channel of the conversation
-- ARGV[5] frame
-- ARGV[6] TTL of the keys, ms
-- Reply: nothing
local typing_key, index, names = KEYS[1], KEYS[2], KEYS[3]
local user, now, publish, channel, frame = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
local ttl = tonumber(ARGV[6])

local score = redis.call('ZSCORE', index, user)
-- A user who is not in the index has no key of Parlor.
if not score then return redis.status_reply('OK') end
local ends = tonumber(score)
local was_shown = delete_own_typing_key(typing_key, ends, ttl)
redis.call('ZREM', index, user)
redis.call('HDEL', names, user)
if ends > now or was_shown then redis.call(publish, channel, frame) end
return redis.status_reply('OK')
