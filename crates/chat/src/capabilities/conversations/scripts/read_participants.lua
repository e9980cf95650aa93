-- Reads the participants of a conversation, if the cached set has this version of the rows.
-- KEYS[1] parlor:gen:{conv}
-- KEYS[2] conversation:{conv}:participants
-- KEYS[3] parlor:participants:{conv}:v
-- ARGV[1] version of the rows: members_version|epoch
-- Reply: { generation or '', user, ... }
local generation, participants, version = KEYS[1], KEYS[2], KEYS[3]
local rows_version = ARGV[1]

local reply = {}
if redis.call('GET', version) == rows_version then reply = redis.pcall('SMEMBERS', participants) end
-- The key has a foreign type: it contains no users.
if reply.err then reply = {} end
table.insert(reply, 1, redis.call('GET', generation) or '')
return reply
