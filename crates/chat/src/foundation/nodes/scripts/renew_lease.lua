-- Renews the lease of a node if the node holds it, or takes a free lease.
-- KEYS[1] parlor:node:{node}
-- ARGV[1] boot id of the node
-- ARGV[2] lease duration, ms
-- Reply: 'held'; 'free' if the lease had expired and was taken again; else the boot id of the process that holds it
local lease_key, epoch, lease = KEYS[1], ARGV[1], ARGV[2]

local holder = redis.call('GET', lease_key)
if holder and holder ~= epoch then return holder end
redis.call('SET', lease_key, epoch, 'PX', lease)
return holder and 'held' or 'free'
