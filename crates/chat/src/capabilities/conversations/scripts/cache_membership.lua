-- Caches an answer about membership, unless the members may have changed since the row was read.
-- KEYS[1] parlor:gen:{conv}
-- KEYS[2] membership:{conv}:{user}
-- KEYS[3] parlor:membership:{conv}:{user}
-- ARGV[1] generation before the row was read, or ''
-- ARGV[2] answer, 1 or 0
-- ARGV[3] store epoch before the row was read
-- ARGV[4] TTL in ms
-- Reply: 1 if it was cached, else 0
local generation, membership, epoch_key = KEYS[1], KEYS[2], KEYS[3]
local expected_generation, answer, epoch, ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if (redis.call('GET', generation) or '') ~= expected_generation then return 0 end
redis.call('SET', membership, answer, 'PX', ttl)
redis.call('SET', epoch_key, epoch, 'PX', ttl)
return 1
