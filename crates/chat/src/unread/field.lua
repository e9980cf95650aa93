-- The head of the scripts of unread counts: what a field of the state says, and how two sayings about one conversation are
-- put together. Whatever the order and however often steps come, the result is the same.
--
-- A field is `1|joined|position|top|badge|own|muted|said|counted`, or `1|left|version|at|top`; the first number is the
-- version of this format. top: the conversation's highest number so far, whoever is a member. joined: the version of the members with which the membership began. position: how often badge and mute have
-- changed. muted: until when, ms, as said by position `said`. counted: whether the count is part of the total.
-- `:epoch` is the epoch in which the state was last held against the rows, `:total` the sum of what is counted.

local function int(number)
  return string.format('%.0f', number)
end

-- What a field says; nil where it is missing or of another version.
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

-- What a conversation adds to the total.
local function share(field)
  return field and field.counted and count(field) or 0
end

-- A position of the row: of an older membership nothing, of a newer one everything, of the same one what is newer of badge
-- and mute, and the higher top. A sender's position says nothing about the mute.
local function placed(old, step)
  -- A message of the new membership may have come before the membership itself.
  local top = math.max(step.top, old and old.top or 0)
  if old and old.left then
    if step.joined < old.left then return old end
    old = nil
  elseif old then
    if step.joined < old.joined then return old end
    if step.joined > old.joined then old = nil end
  end
  local new = old or { joined = step.joined, position = step.position, badge = step.badge, own = step.own, muted = 0, said = 0 }
  new.top = top
  if step.position > new.position then
    new.position, new.badge, new.own = step.position, step.badge, step.own
  end
  if step.muted and (step.position > new.said or not old) then
    new.muted, new.said = step.muted, step.position
  end
  return new
end

-- The end of a membership: nothing of an older one counts after it.
local function gone(old, version, now)
  if old and old.left and old.left >= version then return old end
  if old and old.joined and old.joined > version then return old end
  return { left = version, at = now, top = old and old.top or 0 }
end

-- The documented counters: no key where there is nothing.
local function show(key, number)
  if number > 0 then
    redis.call('SET', key, int(number))
  else
    redis.call('DEL', key)
  end
end

local function tell(publish, channel, head, conversation, number, total)
  redis.call(publish, channel,
    head .. '{"conversationId":"' .. conversation .. '","count":' .. int(number) .. ',"total":' .. int(total) .. '}')
end
