-- Corrects the unread state of one user by rows that were read after the state. If a field is still as it was read, the
-- row replaces it. If it changed meanwhile, it is merged with the row.
--
-- KEYS[1]       parlor:unread:{user}
-- KEYS[2]       unread:{user}:total
-- KEYS[3…]      unread:{user}:{conv} for each conversation
-- ARGV[1]       now in ms
-- ARGV[2]       store epoch in which the state was read
-- ARGV[3]       TTL of the state in ms
-- ARGV[4]       publish command
-- ARGV[5]       first bytes of the frame
-- ARGV[6]       channel of the user
-- ARGV[7]       1 if this call completes the state, else 0
-- ARGV[8]       conversation about which a frame is published in any case; empty for none
-- ARGV[9]       TTL of the marker of a former membership in ms; late updates of that membership are ignored until then
-- ARGV[10]      number to add to a documented total that is wrong; empty to change it by the difference of the own sum
-- ARGV[9n+11…]  for each conversation: its id, the field as it was read (empty: missing), `placed` or `gone` (no member
--               any more), joined_version, position, top, badge, own, end of the mute
-- Reply         the total
local now, epoch, keep = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local publish, head, channel, all, notify_about = ARGV[4], ARGV[5], ARGV[6], ARGV[7] == '1', ARGV[8]
local keep_left = tonumber(ARGV[9])
local state_key, total_key = KEYS[1], KEYS[2]
local conversations = #KEYS - 2

local stored = redis.pcall('HMGET', state_key, ':epoch', ':total')
if stored.err then
  redis.call('DEL', state_key)
  stored = {}
end
local total = tonumber(stored[2] or '')
if not total then
  total = 0
  for at, value in ipairs(redis.call('HGETALL', state_key)) do
    if at % 2 == 0 then total = total + total_share(parse(value)) end
  end
end
-- Part of the documented total that the own sum replaces.
local replaced, correction, changes = total, tonumber(ARGV[10]), {}

for nth = 1, conversations do
  local at = (nth - 1) * 9 + 10
  local conversation, expected = ARGV[at + 1], ARGV[at + 2]
  local found = redis.call('HGET', state_key, conversation) or ''
  local old, new = parse(found ~= '' and found or nil), nil
  if ARGV[at + 3] == 'placed' then
    local row = {
      joined = tonumber(ARGV[at + 4]), position = tonumber(ARGV[at + 5]), top = tonumber(ARGV[at + 6]),
      badge = tonumber(ARGV[at + 7]), own = tonumber(ARGV[at + 8]), muted = tonumber(ARGV[at + 9]),
    }
    local before, share_before = old and count(old), total_share(old)
    -- A counter without a position was written by another service, or the positions were lost.
    if not old and row.muted <= now then replaced = replaced + read_counter(KEYS[nth + 2]) end
    new = merge_position(found ~= expected and old or nil, row)
    if not new.left then new.counted = new.muted <= now end
    total = total - share_before + total_share(new)
    redis.call('HSET', state_key, conversation, text(new))
    write_counter(KEYS[nth + 2], count(new))
    if (before and before ~= count(new)) or conversation == notify_about then changes[#changes + 1] = { conversation, count(new) } end
  elseif found == expected then
    total = total - total_share(old)
    if old and old.joined then
      redis.call('HSET', state_key, conversation, text(mark_left(old, old.joined + 1, now)))
    elseif not old or old.at + keep_left <= now then
      redis.call('HDEL', state_key, conversation)
    end
    write_counter(KEYS[nth + 2], 0)
    if count(old) > 0 then changes[#changes + 1] = { conversation, 0 } end
  end
end

if all then
  -- Recomputes the sum, and counts conversations whose mute has expired.
  total = 0
  local fields, corrected, any = redis.call('HGETALL', state_key), {}, false
  for at = 1, #fields, 2 do
    if string.sub(fields[at], 1, 1) ~= ':' then
      local field = parse(fields[at + 1])
      any = true
      if field and not field.left and field.counted ~= (field.muted <= now) then
        field.counted = not field.counted
        corrected[#corrected + 1] = fields[at]
        corrected[#corrected + 1] = text(field)
      end
      total = total + total_share(field)
    end
  end
  for at = 1, #corrected, 2 do redis.call('HSET', state_key, corrected[at], corrected[at + 1]) end
  if not any then
    -- The user has no conversations: nothing is kept.
    redis.call('DEL', state_key)
    adjust_total(total_key, correction and -correction or replaced, 0)
    for _, change in ipairs(changes) do publish_counts(publish, channel, head, change[1], change[2], 0) end
    return 0
  end
  redis.call('HSET', state_key, ':epoch', int(math.max(epoch, tonumber(stored[1] or '') or 0)))
end
total = math.max(total, 0)
redis.call('HSET', state_key, ':total', int(total))
redis.call('PEXPIRE', state_key, keep)
adjust_total(total_key, correction and total - correction or replaced, total)
for _, change in ipairs(changes) do publish_counts(publish, channel, head, change[1], change[2], total) end
return total
