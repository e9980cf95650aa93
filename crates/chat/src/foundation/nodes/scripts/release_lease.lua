-- Releases the lease of a node if the node holds it.
-- KEYS[1] parlor:node:{node}
-- ARGV[1] boot id of the node
-- Reply: 1 if the lease is free now
local lease_key, boot_id = KEYS[1], ARGV[1]

local holder_boot_id = redis.call('GET', lease_key)
if holder_boot_id and holder_boot_id ~= boot_id then return 0 end
redis.call('DEL', lease_key)
return 1
