-- Shows a message that was edited or deleted.
-- KEYS[1] parlor:top:{conv}
-- KEYS[2] the recent list
-- ARGV[1] epoch
-- ARGV[2] seq of the message
-- ARGV[3] its rev
-- ARGV[4] frame
-- ARGV[5] end of the list's entry
-- ARGV[6] time to live of the top, ms
-- ARGV[7] command that publishes
-- ARGV[8] channel of the conversation
-- ARGV[9] '1' if it is told only where the list does not show it yet
-- Reply: 'OK', 'GAP' if the message itself was not applied yet, or 'COLD'
local top_key, list = KEYS[1], KEYS[2]
local epoch, seq, rev, frame, entry_end = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local top_ttl, publish, channel, if_unseen = ARGV[6], ARGV[7], ARGV[8], ARGV[9] == '1'
local FRAME_HEAD, MOST = 18, 100

local top, held, seen = string.match(redis.call('GET', top_key) or '', '^(%d+)|(%d+)|(%d+)$')
if held ~= epoch then return 'COLD' end
top = tonumber(top)
if seq > top then return 'GAP' end

local at, unseen = top - seq, false
local entry = at < MOST and redis.pcall('LINDEX', list, at)
if type(entry) == 'table' then
  -- Somebody else's.
  redis.call('DEL', list)
elseif entry then
  local read, message = pcall(cjson.decode, entry)
  if not read or type(message) ~= 'table' or message.seq ~= seq or type(message.rev) ~= 'number' then
    redis.call('DEL', list)
  elseif message.rev < rev then
    redis.call('LSET', list, at, string.sub(frame, FRAME_HEAD + 1, -2) .. entry_end)
    unseen = true
  end
end
if if_unseen and not unseen then return 'OK' end
-- From now on the list is not refilled from older rows.
rev = math.max(rev, tonumber(seen))
redis.call('SET', top_key, string.format('%.0f|%s|%.0f', top, epoch, rev), 'PX', top_ttl)
redis.call(publish, channel, frame)
return 'OK'
