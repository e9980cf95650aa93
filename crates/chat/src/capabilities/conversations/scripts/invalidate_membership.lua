-- Invalidates the caches of a conversation after a change of its members, and publishes the frame.
-- KEYS[1] parlor:gen:{conv}
-- KEYS[2..] keys to delete
-- ARGV[1] TTL of the generation in ms
-- ARGV[2] publish command
-- ARGV[3] channel of the conversation
-- ARGV[4] frame
-- ARGV[5..] type of each key to delete; a key of another type belongs to another service and stays
-- Reply: OK
local generation = KEYS[1]
local ttl, publish, channel, frame = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

redis.call('INCR', generation)
redis.call('PEXPIRE', generation, ttl)
for nth = 2, #KEYS do
  if redis.call('TYPE', KEYS[nth]).ok == ARGV[nth + 3] then redis.call('DEL', KEYS[nth]) end
end
redis.call(publish, channel, frame)
return redis.status_reply('OK')
