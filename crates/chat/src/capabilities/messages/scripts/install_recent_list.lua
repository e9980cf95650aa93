-- Installs the recent list from rows, unless a newer message or change was applied since they were read.
-- KEYS[1] watermark parlor:top:{conv}
-- KEYS[2] recent list
-- ARGV[1] store epoch
-- ARGV[2] last seq of the conversation when the rows were read
-- ARGV[3] rev of the conversation when the rows were read
-- ARGV[4] TTL of the list, ms
-- ARGV[5] TTL of the watermark, ms
-- ARGV[6...] list entries, newest first, beginning with the last seq
-- Reply: 'OK', 'OLD', 'COLD', or 'FOREIGN' if the key of the list has a foreign type and stays
local top_key, list = KEYS[1], KEYS[2]
local epoch, last, read_rev, list_ttl, top_ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local FIRST = 6

local top, stored_epoch, rev = string.match(redis.call('GET', top_key) or '', '^(%d+)|(%d+)|(%d+)$')
if stored_epoch ~= epoch then return 'COLD' end
top = tonumber(top)
if last < top or read_rev < tonumber(rev) then return 'OLD' end
redis.call('PEXPIRE', top_key, top_ttl)
local kind = redis.call('TYPE', list).ok
if kind ~= 'list' and kind ~= 'none' then return 'FOREIGN' end
redis.call('DEL', list)
-- Messages above the watermark are pushed by the script that applies them.
local first = FIRST + last - top
if first <= #ARGV then
  redis.call('RPUSH', list, unpack(ARGV, first, #ARGV))
  redis.call('PEXPIRE', list, list_ttl)
end
return 'OK'
