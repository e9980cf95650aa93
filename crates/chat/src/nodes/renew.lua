-- Renews a node's lease if it is still its own, takes it if it is free.
-- KEYS[1] parlor:node:{node}
-- ARGV[1] epoch of the node
-- ARGV[2] lease, ms
-- Reply: 'held', 'free' (it was gone and is taken again) or the epoch of another process that has it
local lease_key, epoch, lease = KEYS[1], ARGV[1], ARGV[2]

local holder = redis.call('GET', lease_key)
if holder and holder ~= epoch then return holder end
redis.call('SET', lease_key, epoch, 'PX', lease)
return holder and 'held' or 'free'
