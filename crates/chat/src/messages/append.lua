-- Applies messages of a conversation in the order of their seq, each once: list, typing, frame, event.
-- KEYS[1] parlor:top:{conv}
-- KEYS[2] the recent list
-- KEYS[3] conversation:{conv}:participants
-- KEYS[4] parlor:participants:{conv}:v
-- KEYS[5] parlor:typing:{conv}
-- KEYS[6] parlor:typing:{conv}:names
-- KEYS[7...] typing:{conv}:{sender} of each message
-- ARGV[1] epoch
-- ARGV[2] now, ms
-- ARGV[3] the conversation's rev at which the messages were read
-- ARGV[4] where to start when the top is unknown: the seq up to which all was applied; '' if the caller does not know
-- ARGV[5] what the version of the participants has to be, or '' where they are too many for a set
-- ARGV[6] time to live of the list, ms
-- ARGV[7] time to live of the top, ms
-- ARGV[8] command that publishes frames
-- ARGV[9] channel of the conversation
-- ARGV[10] channel of the event
-- ARGV[11] end of the event: the participants
-- ARGV[12...] of each message: seq, sender, frame, end of the list's entry, frame of the end of typing or '', start of the event
-- Reply: { 'OK', 'GAP' or 'COLD', top, 1 if there is no list, 1 if there is no set of these participants }
local top_key, list, members, version, index, names = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local epoch, now, read_rev, start, expected = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local list_ttl, top_ttl, publish, channel = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local event_channel, event_end = ARGV[10], ARGV[11]
local FIRST_KEY, FIRST, WIDTH, MOST = 7, 12, 6, 100
-- A frame's version, kind, seq and rev; the message follows.
local FRAME_HEAD = 18

local messages = (#ARGV - FIRST + 1) / WIDTH
local top, held, rev
local value = redis.call('GET', top_key)
if value then top, held, rev = string.match(value, '^(%d+)|(%d+)|(%d+)$') end
top, rev = tonumber(top or 0), tonumber(rev or 0)
local changed = false
if held ~= epoch then
  if start == '' then return { 'COLD', '0', 0, 0 } end
  -- What was applied in another epoch was published then, as far as there are such messages.
  start = tonumber(start)
  local last = messages > 0 and tonumber(ARGV[FIRST + (messages - 1) * WIDTH]) or start
  top, rev, changed = math.max(start, math.min(top, last)), read_rev, true
  redis.call('DEL', list)
end

local function stop_typing(typing_key, user, frame)
  local ends = tonumber(redis.call('ZSCORE', index, user) or 0)
  local shown = redis.call('DEL', typing_key)
  redis.call('ZREM', index, user)
  redis.call('HDEL', names, user)
  if ends > now or shown == 1 then redis.call(publish, channel, frame) end
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
      -- It was read before a change that was applied, and the change may be its own.
      redis.call('DEL', list)
    else
      -- The first message is a whole list.
      local entry = string.sub(frame, FRAME_HEAD + 1, -2) .. entry_end
      local pushed = redis.pcall(top == 0 and 'LPUSH' or 'LPUSHX', list, entry)
      -- Somebody else's.
      if type(pushed) == 'table' and pushed.err then redis.call('DEL', list) end
    end
    if stopped ~= '' then stop_typing(KEYS[FIRST_KEY + nth], sender, stopped) end
    redis.call(publish, channel, frame)
    redis.call('PUBLISH', event_channel, event_start .. event_end)
    top, changed = seq, true
  end
end

if changed then
  local trimmed = redis.pcall('LTRIM', list, 0, MOST - 1)
  if trimmed.err then redis.call('DEL', list) end
  redis.call('PEXPIRE', list, list_ttl)
  redis.call('SET', top_key, string.format('%.0f|%s|%.0f', top, epoch, rev), 'PX', top_ttl)
end
local differs = expected ~= '' and (redis.call('GET', version) ~= expected or redis.call('EXISTS', members) == 0)
return { state, string.format('%.0f', top), 1 - redis.call('EXISTS', list), differs and 1 or 0 }
