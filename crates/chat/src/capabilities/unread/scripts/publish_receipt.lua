-- Raises the delivery position of a member after their row has changed, and publishes the receipt. The position never
-- falls, whatever the order of the calls.
--
-- KEYS[1]  delivery:{conv}:{user}
-- ARGV[1]  highest delivered seq
-- ARGV[2]  TTL of the key in ms
-- ARGV[3]  publish command
-- ARGV[4]  channel of the conversation
-- ARGV[5]  receipt frame
-- Reply    OK
local key, seq = KEYS[1], ARGV[1]
local stored = redis.pcall('GET', key)
if type(stored) == 'string' and (tonumber(stored) or 0) > tonumber(seq) then seq = stored end
-- A key of a foreign type belongs to another service and stays.
if type(stored) ~= 'table' then redis.call('SET', key, seq, 'PX', ARGV[2]) end
redis.call(ARGV[3], ARGV[4], ARGV[5])
return redis.status_reply('OK')
