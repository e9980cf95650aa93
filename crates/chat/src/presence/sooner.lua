-- A deadline was shortened. More than `ZADD LT`: where the entry is due earlier anyway, its score changes all the same,
-- so that a look under way, which may have seen the longer deadline, does not put that one in.
-- KEYS[1] parlor:deadlines:{shard}
-- ARGV[1] user
-- ARGV[2] deadline, ms
-- Reply: the score
local index, user, deadline = KEYS[1], ARGV[1], tonumber(ARGV[2])

local score = tonumber(redis.call('ZSCORE', index, user) or deadline + 1)
score = score > deadline and deadline or score - 1
redis.call('ZADD', index, string.format('%.0f', score), user)
return string.format('%.0f', score)
