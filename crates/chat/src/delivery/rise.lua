-- Messages reached a member, as their row says: the position only rises, whatever the order in which it is told.
--
-- KEYS[1]  delivery:{conv}:{user}
-- ARGV[1]  the last message that reached them
-- ARGV[2]  how long the position is kept, ms
-- ARGV[3]  the command that publishes
-- ARGV[4]  channel of the conversation
-- ARGV[5]  frame
-- Reply    OK
local key, seq = KEYS[1], ARGV[1]
local held = redis.pcall('GET', key)
if type(held) == 'string' and (tonumber(held) or 0) > tonumber(seq) then seq = held end
redis.call('SET', key, seq, 'PX', ARGV[2])
redis.call(ARGV[3], ARGV[4], ARGV[5])
return redis.status_reply('OK')
