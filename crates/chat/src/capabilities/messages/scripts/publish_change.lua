-- Writes an edited or deleted message to the recent list and publishes it.
-- KEYS[1] watermark parlor:top:{conv}
-- KEYS[2] recent list
-- ARGV[1] store epoch
-- ARGV[2] seq of the message
-- ARGV[3] rev of the message
-- ARGV[4] frame
-- ARGV[5] end of the list entry
-- ARGV[6] TTL of the watermark, ms
-- ARGV[7] command that publishes frames
-- ARGV[8] channel of the conversation
-- Reply: 'OK', 'GAP' if the message itself is not applied yet, or 'COLD'
local top_key, list = KEYS[1], KEYS[2]
local epoch, seq, rev, frame, entry_end = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local top_ttl, publish, channel = ARGV[6], ARGV[7], ARGV[8]
local FRAME_HEAD, MOST = 26, 100

local top, stored_epoch, seen = string.match(redis.call('GET', top_key) or '', '^(%d+)|(%d+)|(%d+)$')
if stored_epoch ~= epoch then return 'COLD' end
top = tonumber(top)
if seq > top then return 'GAP' end

local at = top - seq
local entry = at < MOST and redis.pcall('LINDEX', list, at)
-- A key of a foreign type belongs to another service and stays.
if type(entry) == 'string' then
  local read, message = pcall(cjson.decode, entry)
  if not read or type(message) ~= 'table' or message.seq ~= seq or type(message.rev) ~= 'number' then
    redis.call('DEL', list)
  elseif message.rev < rev then
    redis.call('LSET', list, at, string.sub(frame, FRAME_HEAD + 1, -2) .. entry_end)
  end
end
-- The rev in the watermark prevents a refill of the list from rows that were read before this change.
rev = math.max(rev, tonumber(seen))
redis.call('SET', top_key, string.format('%.0f|%s|%.0f', top, epoch, rev), 'PX', top_ttl)
redis.call(publish, channel, frame)
return 'OK'
