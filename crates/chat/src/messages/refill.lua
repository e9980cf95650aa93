-- Installs the recent list from rows, unless they are older than what was applied.
-- KEYS[1] parlor:top:{conv}
-- KEYS[2] the recent list
-- ARGV[1] epoch
-- ARGV[2] the conversation's last seq when the rows were read
-- ARGV[3] its rev then
-- ARGV[4] time to live of the list, ms
-- ARGV[5] time to live of the top, ms
-- ARGV[6...] entries, newest first, from that seq on
-- Reply: 'OK', 'OLD' or 'COLD'
local top_key, list = KEYS[1], KEYS[2]
local epoch, last, read_rev, list_ttl, top_ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local FIRST = 6

local top, held, rev = string.match(redis.call('GET', top_key) or '', '^(%d+)|(%d+)|(%d+)$')
if held ~= epoch then return 'COLD' end
top = tonumber(top)
if last < top or read_rev < tonumber(rev) then return 'OLD' end
redis.call('DEL', list)
-- What is newer than the top is pushed by the step that applies it.
local first = FIRST + last - top
if first <= #ARGV then
  redis.call('RPUSH', list, unpack(ARGV, first, #ARGV))
  redis.call('PEXPIRE', list, list_ttl)
end
redis.call('PEXPIRE', top_key, top_ttl)
return 'OK'
