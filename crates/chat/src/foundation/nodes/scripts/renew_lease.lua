-- Renews the lease of a node if the node holds it, or takes a free lease.
-- KEYS[1] parlor:node:{node}
-- ARGV[1] boot id of the node
-- ARGV[2] lease duration, ms
-- Reply: 'held'; 'free' if the lease had expired and was taken again; else the boot id of the process that holds it
local lease_key, boot_id, lease = KEYS[1], ARGV[1], ARGV[2]

local holder_boot_id = redis.call('GET', lease_key)
if holder_boot_id and holder_boot_id ~= boot_id then return holder_boot_id end
redis.call('SET', lease_key, boot_id, 'PX', lease)
return holder_boot_id and 'held' or 'free'
