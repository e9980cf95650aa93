-- Applies one update in one conversation to each of several users. In cluster mode a call has one user, because the
-- keys of a user share that user's hash slot.
--
-- KEYS[3n+1]    parlor:unread:{user}
-- KEYS[3n+2]    unread:{user}:{conv}
-- KEYS[3n+3]    unread:{user}:total
-- ARGV[1]       now in ms
-- ARGV[2]       store epoch
-- ARGV[3]       TTL of the state in ms
-- ARGV[4]       publish command
-- ARGV[5]       first bytes of the frame
-- ARGV[6]       conversation
-- ARGV[8n+7…]   channel of the user, kind of update (`sent`, `placed`, `left`), members_version (`sent`, `left`) or
--               joined_version (`placed`), position, top, badge, own, end of the mute (empty: unchanged)
-- Reply         for each user 1, 2 if a documented key has a foreign type and was not written, or 0 if the state must be
--               reconciled with the rows first
local now, epoch, keep = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local publish, head, conversation = ARGV[4], ARGV[5], ARGV[6]

local function update_user(user)
  local key, at = user * 3, 6 + user * 8
  has_foreign_key = false
  local state_key, count_key, total_key = KEYS[key + 1], KEYS[key + 2], KEYS[key + 3]
  local channel, what, version = ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  local stored = redis.pcall('HMGET', state_key, ':epoch', ':total', conversation)
  if stored.err then
    -- The key is internal: a value of a foreign type is of no use to anybody.
    redis.call('DEL', state_key)
    stored = {}
  end
  local old, total = parse(stored[3]), tonumber(stored[2] or '')
  if (tonumber(stored[1] or '') or -1) < epoch or not total or (stored[3] and not old) then
    -- A former membership has no row, so a reconcile would not find its counter.
    if what == 'left' then
      if not stored[3] and read_counter(count_key) > 0 then adjust_total(total_key, read_counter(count_key), 0) end
      write_counter(count_key, 0)
    end
    return 0
  end
  local before, share_before, new = count(old), total_share(old), nil
  if what == 'left' then
    new = mark_left(old, version, now)
  elseif what == 'sent' then
    if not old then return 0 end
    if old.left and version >= old.left then return 0 end
    old.top = math.max(old.top, tonumber(ARGV[at + 5]))
    new = old
  else
    local muted = tonumber(ARGV[at + 8])
    if not old and not muted then return 0 end
    new = merge_position(old, {
      joined = version, position = tonumber(ARGV[at + 4]), top = tonumber(ARGV[at + 5]), badge = tonumber(ARGV[at + 6]),
      own = tonumber(ARGV[at + 7]), muted = muted,
    })
  end
  if not new.left then new.counted = new.muted <= now end
  local written = text(new)
  if written == stored[3] then return 1 end
  local after, total_after = count(new), total - share_before + total_share(new)
  redis.call('HSET', state_key, conversation, written, ':total', int(total_after))
  redis.call('PEXPIRE', state_key, keep)
  -- The count of another service, which this one replaces, is part of the total.
  local replaced = not stored[3] and new.counted and read_counter(count_key) or 0
  if after ~= before or not stored[3] then write_counter(count_key, after) end
  if total_after ~= total + replaced then adjust_total(total_key, total + replaced, total_after) end
  if after ~= before or total_after ~= total then
    publish_counts(publish, channel, head, conversation, after, total_after)
  end
  return has_foreign_key and 2 or 1
end

local reply = {}
for user = 0, #KEYS / 3 - 1 do reply[user + 1] = update_user(user) end
return reply
