-- Takes users whose deadline has come, and keeps other nodes from looking at them for a moment.
-- KEYS[1] parlor:deadlines:{shard}
-- ARGV[1] now, ms
-- ARGV[2] until when they are taken, ms and a half: a score that nobody else writes
-- ARGV[3] how many at most
-- Reply: users
local index, now, taken, most = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

local users = redis.call('ZRANGEBYSCORE', index, '-inf', now, 'LIMIT', 0, most)
for _, user in ipairs(users) do
  redis.call('ZADD', index, taken, user)
end
return users
