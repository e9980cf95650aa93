-- Caches an answer about membership, unless the members may have changed since the row was read. The documented key stays
-- as it is if Parlor does not know the conversation, because other services answer for theirs, and if it has a foreign type.
-- KEYS[1] parlor:gen:{conv}
-- KEYS[2] membership:{conv}:{user}
-- KEYS[3] parlor:membership:{conv}:{user}
-- ARGV[1] generation before the row was read, or ''
-- ARGV[2] answer, 1 or 0; '' if the conversation does not exist
-- ARGV[3] value of KEYS[3]: the answer, and the store epoch before the row was read
-- ARGV[4] TTL in ms
-- Reply: 1 if it was cached, else 0
local generation, membership, checked_key = KEYS[1], KEYS[2], KEYS[3]
local expected_generation, answer, checked, ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if (redis.call('GET', generation) or '') ~= expected_generation then return 0 end
if answer ~= '' and type(redis.pcall('GET', membership)) ~= 'table' then
  redis.call('SET', membership, answer, 'PX', ttl)
end
redis.call('SET', checked_key, checked, 'PX', ttl)
return 1
