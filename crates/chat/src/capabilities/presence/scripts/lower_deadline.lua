-- Lowers a user's entry in the deadline index to `deadline`; an earlier entry stays.
-- `ZADD LT` is not enough: if a sweeper has claimed the entry (score ending in .5), the sweeper may have read the old,
-- longer deadline. The claimed score is therefore replaced as well, and mark_checked.lua of that sweeper then leaves
-- the entry alone.
-- KEYS[1] parlor:deadlines:{shard}
-- ARGV[1] user
-- ARGV[2] deadline, ms
-- Reply: the score
local index, user, deadline = KEYS[1], ARGV[1], tonumber(ARGV[2])

-- Scores of claimed entries end in .5.
local current_score = tonumber(redis.call('ZSCORE', index, user) or deadline)
local score = string.format('%.0f', math.min(deadline, math.floor(current_score)))
redis.call('ZADD', index, score, user)
return score
