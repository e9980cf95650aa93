-- Claims users whose deadline has passed, so that other nodes leave them alone for a few seconds.
-- KEYS[1] parlor:deadlines:{shard}
-- ARGV[1] now, ms
-- ARGV[2] score of the claim: end of the claim in ms plus 0.5, which no other writer uses
-- ARGV[3] maximum number of users
-- Reply: the claimed users
local index, now, claim_score, max_users = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

local users = redis.call('ZRANGEBYSCORE', index, '-inf', now, 'LIMIT', 0, max_users)
for _, user in ipairs(users) do
  redis.call('ZADD', index, claim_score, user)
end
return users
