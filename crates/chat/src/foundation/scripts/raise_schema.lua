-- Raises the number of the key schema to that of this server, if it is lower.
-- KEYS[1] parlor:schema
-- ARGV[1] number of this server
-- Reply: the number after that
local schema = KEYS[1]
local own = tonumber(ARGV[1])

local found = tonumber(redis.call('GET', schema) or '') or 0
if found >= own then return found end
redis.call('SET', schema, own)
return own
