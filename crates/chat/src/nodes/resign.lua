-- Gives a node's lease back if it is its own.
-- KEYS[1] parlor:node:{node}
-- ARGV[1] epoch of the node
-- Reply: 1 if nobody has it now
local lease_key, epoch = KEYS[1], ARGV[1]

local holder = redis.call('GET', lease_key)
if holder and holder ~= epoch then return 0 end
redis.call('DEL', lease_key)
return 1
