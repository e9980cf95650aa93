-- Applies messages of a conversation in seq order, each once: recent list, typing keys, frame, event. own_key.lua of
-- typing precedes.
-- KEYS[1] watermark parlor:top:{conv}
-- KEYS[2] recent list
-- KEYS[3] conversation:{conv}:participants
-- KEYS[4] parlor:participants:{conv}:v
-- KEYS[5] parlor:typing:{conv}
-- KEYS[6] parlor:typing:{conv}:names
-- KEYS[7...] typing:{conv}:{sender} of each message
-- ARGV[1] store epoch
-- ARGV[2] current time, ms
-- ARGV[3] rev of the conversation when the messages were read
-- ARGV[4] applied seq to assume if the watermark is cold; '' if the caller does not know it
-- ARGV[5] version that the participant set must have; '' if the conversation is too large for a set
-- ARGV[6] TTL of the list, ms
-- ARGV[7] TTL of the watermark, ms
-- ARGV[8] command that publishes frames
-- ARGV[9] channel of the conversation
-- ARGV[10] channel of the event
-- ARGV[11] end of the event JSON: the members; each event leaves out the sender
-- ARGV[12] TTL of the typing keys, ms
-- ARGV[13...] of each message: seq, sender, frame, end of the list entry, frame "stopped typing" or '', start of the
-- event JSON
-- Reply: { 'OK', 'GAP' or 'COLD', applied seq, 1 if the list is missing, 1 if the participant set is missing or has
-- another version }
local top_key, list, members, version, index, names = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local epoch, now, read_rev, start, expected = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local list_ttl, top_ttl, publish, channel = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local event_channel, event_end, typing_ttl = ARGV[10], ARGV[11], tonumber(ARGV[12])
local FIRST_KEY, FIRST, WIDTH, MOST = 7, 13, 6, 100
-- Length of the frame header: version, kind, seq, rev, members_version. The JSON of the message follows.
local FRAME_HEAD = 26

-- A key of a foreign type belongs to another service and stays.
local function drop_list()
  if redis.call('TYPE', list).ok == 'list' then redis.call('DEL', list) end
end

local messages = (#ARGV - FIRST + 1) / WIDTH
local top, stored_epoch, rev
local value = redis.call('GET', top_key)
if value then top, stored_epoch, rev = string.match(value, '^(%d+)|(%d+)|(%d+)$') end
top, rev = tonumber(top or 0), tonumber(rev or 0)
local changed = false
if stored_epoch ~= epoch then
  if start == '' then return { 'COLD', '0', 0, 0 } end
  -- Messages up to a watermark of another epoch were published in that epoch. The last message limits this: the
  -- watermark may be above it.
  start = tonumber(start)
  local last = messages > 0 and tonumber(ARGV[FIRST + (messages - 1) * WIDTH]) or start
  top, rev, changed = math.max(start, math.min(top, last)), read_rev, true
  drop_list()
end

local function stop_typing(typing_key, user, frame)
  local score = redis.call('ZSCORE', index, user)
  if not score then return end
  local ends = tonumber(score)
  local was_shown = delete_own_typing_key(typing_key, ends, typing_ttl)
  redis.call('ZREM', index, user)
  redis.call('HDEL', names, user)
  if ends > now or was_shown then redis.call(publish, channel, frame) end
end

-- End of the event JSON without the sender. Ids need no escaping, so the first quoted match after the `[` is the id.
local LIST_START = #'"participantIds":[' + 1
local function other_participants(sender)
  local first, last = string.find(event_end, '"' .. sender .. '"', LIST_START, true)
  if not first then return event_end end
  if string.sub(event_end, last + 1, last + 1) == ',' then
    last = last + 1
  elseif string.sub(event_end, first - 1, first - 1) == ',' then
    first = first - 1
  end
  return string.sub(event_end, 1, first - 1) .. string.sub(event_end, last + 1)
end

local state = 'OK'
for nth = 0, messages - 1 do
  local at = FIRST + nth * WIDTH
  local seq, sender, frame, entry_end = tonumber(ARGV[at]), ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local stopped, event_start = ARGV[at + 4], ARGV[at + 5]
  if seq > top + 1 then
    state = 'GAP'
    break
  elseif seq == top + 1 then
    if read_rev < rev then
      -- The messages were read before a change that is already published, perhaps a change of this message.
      drop_list()
    else
      -- Message 1 alone is a complete list, so the list may be created. Otherwise only an existing list is extended.
      local entry = string.sub(frame, FRAME_HEAD + 1, -2) .. entry_end
      redis.pcall(top == 0 and 'LPUSH' or 'LPUSHX', list, entry)
    end
    if stopped ~= '' then stop_typing(KEYS[FIRST_KEY + nth], sender, stopped) end
    redis.call(publish, channel, frame)
    redis.call('PUBLISH', event_channel, event_start .. other_participants(sender))
    top, changed = seq, true
  end
end

if changed then
  local trimmed = redis.pcall('LTRIM', list, 0, MOST - 1)
  if not trimmed.err then redis.call('PEXPIRE', list, list_ttl) end
  redis.call('SET', top_key, string.format('%.0f|%s|%.0f', top, epoch, rev), 'PX', top_ttl)
end
local differs = expected ~= '' and (redis.call('GET', version) ~= expected or redis.call('EXISTS', members) == 0)
return { state, string.format('%.0f', top), 1 - redis.call('EXISTS', list), differs and 1 or 0 }
