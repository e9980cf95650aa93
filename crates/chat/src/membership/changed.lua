-- The members of a conversation have changed: forgets what was known of them, and tells the nodes.
-- KEYS[1] parlor:gen:{conv}
-- KEYS[2..] what is to be forgotten
-- ARGV[1] time to live of the generation, ms
-- ARGV[2] command that publishes
-- ARGV[3] channel of the conversation
-- ARGV[4] frame
-- Reply: nothing
local generation = KEYS[1]
local ttl, publish, channel, frame = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

redis.call('INCR', generation)
redis.call('PEXPIRE', generation, ttl)
for nth = 2, #KEYS do redis.call('DEL', KEYS[nth]) end
redis.call(publish, channel, frame)
return redis.status_reply('OK')
