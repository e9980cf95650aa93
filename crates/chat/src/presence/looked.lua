-- After a look at users: when to look again, or never. An entry that somebody changed meanwhile is left to them.
-- KEYS[1] parlor:deadlines:{shard}
-- ARGV[1] the score they were taken with
-- ARGV[2…] user and deadline in turn; 0 is no deadline
-- Reply: how many entries were left alone
local index, taken = KEYS[1], tonumber(ARGV[1])

local left = 0
for at = 2, #ARGV, 2 do
  local user, deadline = ARGV[at], ARGV[at + 1]
  if tonumber(redis.call('ZSCORE', index, user) or -1) ~= taken then
    left = left + 1
  elseif deadline == '0' then
    redis.call('ZREM', index, user)
  else
    redis.call('ZADD', index, deadline, user)
  end
end
return left
