-- A deadline was shortened. More than `ZADD LT`: where the entry is due earlier anyway because somebody looks at the user
-- just now, who may have seen the longer deadline, its score changes all the same: they leave it alone then.
-- KEYS[1] parlor:deadlines:{shard}
-- ARGV[1] user
-- ARGV[2] deadline, ms
-- Reply: the score
local index, user, deadline = KEYS[1], ARGV[1], tonumber(ARGV[2])

-- Taken entries have a score between two milliseconds.
local found = tonumber(redis.call('ZSCORE', index, user) or deadline)
local score = string.format('%.0f', math.min(deadline, math.floor(found)))
redis.call('ZADD', index, score, user)
return score
