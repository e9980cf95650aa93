-- Caches the participants of a conversation, unless the members may have changed since the rows were read.
-- KEYS[1] parlor:gen:{conv}
-- KEYS[2] conversation:{conv}:participants
-- KEYS[3] parlor:participants:{conv}:v
-- ARGV[1] generation before the rows were read, or ''
-- ARGV[2] version of the rows: members_version|epoch
-- ARGV[3] TTL in ms
-- ARGV[4..] users, at most 1,000
-- Reply: 1 if they were cached, 0 if the members may have changed, 2 if the key has a foreign type and stays
local generation, participants, version = KEYS[1], KEYS[2], KEYS[3]
local expected_generation, rows_version, ttl = ARGV[1], ARGV[2], ARGV[3]

if (redis.call('GET', generation) or '') ~= expected_generation then return 0 end
-- The version is written in any case, so that the next message does not try again.
redis.call('SET', version, rows_version, 'PX', ttl)
local kind = redis.call('TYPE', participants).ok
if kind ~= 'set' and kind ~= 'none' then return 2 end
redis.call('DEL', participants)
if #ARGV > 3 then
  redis.call('SADD', participants, unpack(ARGV, 4))
  redis.call('PEXPIRE', participants, ttl)
end
return 1
