-- Prelude of the unread scripts: parses, merges and encodes one field of parlor:unread:{user}.
-- Updates can arrive late, twice or in any order. The merged field is the same.
--
-- Field of a member:         1|joined|position|top|badge|own|muted|said|counted
-- Field of a former member:  1|left|version|at|top
--   1         version of this format
--   joined    members_version with which the membership began
--   position  position_version of the row; increases with every change of badge or mute
--   top       highest seq of the conversation known so far; kept across memberships
--   badge     messages up to this seq do not count as unread
--   own       number of the user's own messages after badge
--   muted     end of the mute in ms, 0 if not muted
--   said      position at which the mute was set
--   counted   1 if the count is part of the total
--   version   members_version with which the membership ended
--   at        time in ms at which the marker was written
-- ':epoch' is the store epoch in which the state was last compared with the database. ':total' is the sum of all
-- counted fields.

local function int(number)
  return string.format('%.0f', number)
end

-- Parses a field; nil if it is missing or has another version.
local function parse(text)
  if not text then return nil end
  local left, at, last = string.match(text, '^1|left|(%d+)|(%d+)|(%d+)$')
  if left then return { left = tonumber(left), at = tonumber(at), top = tonumber(last) } end
  local joined, position, top, badge, own, muted, said, counted =
    string.match(text, '^1|(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|([01])$')
  if not joined then return nil end
  return {
    joined = tonumber(joined), position = tonumber(position), top = tonumber(top), badge = tonumber(badge),
    own = tonumber(own), muted = tonumber(muted), said = tonumber(said), counted = counted == '1',
  }
end

local function text(field)
  if field.left then return table.concat({ '1|left', int(field.left), int(field.at), int(field.top) }, '|') end
  return table.concat({
    '1', int(field.joined), int(field.position), int(field.top), int(field.badge), int(field.own), int(field.muted),
    int(field.said), field.counted and '1' or '0',
  }, '|')
end

local function count(field)
  if not field or field.left then return 0 end
  return math.max(field.top - field.badge - field.own, 0)
end

-- Contribution of a field to the total.
local function total_share(field)
  return field and field.counted and count(field) or 0
end

-- Merges a position of the row into a field. A position of an older membership is ignored, and one of a newer
-- membership replaces the field. In the same membership the newer badge, the newer mute and the higher top win. The
-- position of a sender (row.muted is nil) does not change the mute.
local function merge_position(old, row)
  -- The top of a former membership is kept: a message of the new membership can arrive before the membership itself.
  local top = math.max(row.top, old and old.top or 0)
  if old and old.left then
    if row.joined < old.left then return old end
    old = nil
  elseif old then
    if row.joined < old.joined then return old end
    if row.joined > old.joined then old = nil end
  end
  local new = old or { joined = row.joined, position = row.position, badge = row.badge, own = row.own, muted = 0, said = 0 }
  new.top = top
  if row.position > new.position then
    new.position, new.badge, new.own = row.position, row.badge, row.own
  end
  if row.muted and (row.position > new.said or not old) then
    new.muted, new.said = row.muted, row.position
  end
  return new
end

-- Marks the membership as ended. Later updates of this or an older membership are ignored.
local function mark_left(old, version, now)
  if old and old.left and old.left >= version then return old end
  if old and old.joined and old.joined > version then return old end
  return { left = version, at = now, top = old and old.top or 0 }
end

-- True if a documented key has a foreign type. Such a key belongs to another service and stays.
local has_foreign_key = false

-- Writes a documented counter. The key is deleted at 0.
local function write_counter(key, number)
  -- Both commands fail if the key has a foreign type.
  local old
  if number > 0 then
    old = redis.pcall('GETSET', key, int(number))
  else
    old = redis.pcall('GETDEL', key)
  end
  if type(old) == 'table' then has_foreign_key = true end
end

-- Value of a documented counter, 0 if it is missing or no number.
local function read_counter(key)
  local value = redis.pcall('GET', key)
  return type(value) == 'string' and tonumber(value) or 0
end

-- Changes the documented total by the difference of Parlor's own sum, so that counts of other services stay in it. A
-- total below the own sum has lost it.
local function adjust_total(key, before, after)
  local total = before == after and read_counter(key) or redis.pcall('INCRBY', key, int(after - before))
  if type(total) == 'table' or total < after then
    write_counter(key, after)
  elseif total == 0 and before ~= after then
    write_counter(key, 0)
  end
end

local function publish_counts(publish, channel, head, conversation, number, total)
  redis.call(publish, channel,
    head .. '{"conversationId":"' .. conversation .. '","count":' .. int(number) .. ',"total":' .. int(total) .. '}')
end
