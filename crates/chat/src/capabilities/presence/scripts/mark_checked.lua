-- Ends the claim of checked users: sets the time of the next check or removes the entry. An entry that was changed
-- meanwhile is left alone.
-- KEYS[1] parlor:deadlines:{shard}
-- ARGV[1] score of the claim
-- ARGV[2…] user and deadline alternately; 0 means no deadline
-- Reply: number of entries that were left alone
local index, claim_score = KEYS[1], tonumber(ARGV[1])

local skipped = 0
for at = 2, #ARGV, 2 do
  local user, deadline = ARGV[at], ARGV[at + 1]
  if tonumber(redis.call('ZSCORE', index, user) or -1) ~= claim_score then
    skipped = skipped + 1
  elseif deadline == '0' then
    redis.call('ZREM', index, user)
  else
    redis.call('ZADD', index, deadline, user)
  end
end
return skipped
