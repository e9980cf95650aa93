-- Head of every presence script: the state of one user, and `commit_state`, the only function that changes it.
-- The layout's `refresh_layout` precedes, its `write_layout` follows, then the script itself. All keys are in the
-- user's slot.
--
-- KEYS[1]  parlor:presence:{user}
-- KEYS[2]  lastseen:{user}
-- KEYS[3…] the keys of the layout
-- ARGV[1]  user
-- ARGV[2]  now, ms
-- ARGV[3]  now, ISO 8601
-- ARGV[4]  lifetime of a device after a heartbeat (ttl.presence), ms
-- ARGV[5]  TTL of an explicit `offline` in the layout `status`, ms
-- ARGV[6]  channel events:user.online
-- ARGV[7]  channel events:user.offline
-- ARGV[8]  channel parlor:watch:{shard}
-- ARGV[9…] arguments of the script itself
local state_key, seen_key = KEYS[1], KEYS[2]
local user, now, now_iso = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local ttl, offline_ttl = tonumber(ARGV[4]), tonumber(ARGV[5])
local online_channel, offline_channel, watch_channel = ARGV[6], ARGV[7], ARGV[8]
local STATE_TTL = 48 * 3600 * 1000
local HOUR = 3600 * 1000

local function int(number)
  return string.format('%.0f', number)
end

-- devices[id] = { node, boot_id, deadline, connected, info }. The boot id `api` is a device without a socket; an empty
-- one is a device whose connection is lost.
local devices, fields, known = {}, {}, false
-- tombstones[id] = time at which a device was removed, ms.
local graves = {}
local writes, removals = {}, {}
-- Devices that this script added, refreshed and removed, for the layout.
local added, beaten, gone = {}, {}, {}

local function write(field, value)
  writes[#writes + 1] = field
  writes[#writes + 1] = value
end

local function load()
  local raw, infos = redis.call('HGETALL', state_key), {}
  for at = 1, #raw, 2 do
    local kind, id, value = string.sub(raw[at], 1, 2), string.sub(raw[at], 3), raw[at + 1]
    known = true
    if kind == 'd:' then
      local node, epoch, deadline, connected = string.match(value, '^([^#]*)#([^|]*)|(%d+)|(.*)$')
      if node then
        devices[id] = { node = node, epoch = epoch, deadline = tonumber(deadline), connected = connected }
      else
        -- Written by another version: its node registers the device again.
        removals[#removals + 1] = raw[at]
      end
    elseif kind == 'i:' then
      infos[id] = value
    elseif kind == 'g:' then
      graves[id] = tonumber(value)
    else
      fields[raw[at]] = value
    end
  end
  for id, info in pairs(infos) do
    if devices[id] then devices[id].info = info end
  end
end

local function put(id, device)
  devices[id] = device
  write('d:' .. id, device.node .. '#' .. device.epoch .. '|' .. int(device.deadline) .. '|' .. device.connected)
end

local function drop(id)
  removals[#removals + 1] = 'd:' .. id
  if devices[id].info then removals[#removals + 1] = 'i:' .. id end
  devices[id] = nil
  gone[#gone + 1] = id
end

local function drop_lapsed()
  for id, device in pairs(devices) do
    if device.deadline <= now then drop(id) end
  end
end

-- True if a device was removed at or after `since`, ms. For a device with a socket its tombstone decides, for a device
-- without a socket the user's last clean disconnect or removal.
local function ended(id, epoch, since)
  local at = graves[id]
  if epoch == 'api' then at = tonumber(fields.left) end
  return at ~= nil and at >= since
end

local function explicit(status)
  if status then
    if fields.x ~= status then write('x', status) end
  elseif fields.x then
    removals[#removals + 1] = 'x'
  end
  fields.x = status
end

-- The store lost the state of a user who was online when a node last knew.
local function assume_online()
  known, fields.s = true, 'online'
end

local project

-- Calls `write_layout`; if a key of the layout has a foreign type, deletes the keys and writes them again.
local function show(view)
  if pcall(project, view) then return end
  for at = 3, #KEYS do redis.call('DEL', KEYS[at]) end
  for id in pairs(devices) do added[id] = true end
  gone, view.changed, view.crossed = {}, true, true
  project(view)
end

-- Writes the state and the layout, and publishes the events. `suppress_online_event` suppresses `events:user.online`.
-- `is_volatile`: overwritten values are not written to disk; such a script does not extend the TTL, because the TTL on
-- disk would end unnoticed.
-- Reply: { visible status, version, latest deadline or 0, last seen or '' }
local function settle(silent, fleeting)
  local latest, count = 0, 0
  for _, device in pairs(devices) do
    count = count + 1
    if device.deadline > latest then latest = device.deadline end
  end
  local before, visible = fields.s or 'offline', 'offline'
  if latest > 0 then
    visible = fields.x or 'online'
  else
    explicit(nil)
  end
  local version, seen = tonumber(fields.v) or 0, fields.seen
  if not known and latest == 0 then
    return { visible, version, 0, '' }
  end
  -- A user whose devices have expired reads as offline before a sweep has removed them. If the user is online again,
  -- watchers must receive a change.
  local seen_gone = before ~= 'offline' and (tonumber(fields['until']) or 0) <= now
  local back = seen_gone and visible ~= 'offline' and latest > now
  local changed = visible ~= before or back
  local crossed = (visible == 'offline') ~= (before == 'offline')
  if changed then
    version = math.max(version + 1, now)
    write('s', visible)
    -- Deleted first: a volatile write does not write an overwritten field to disk, but a published version must be.
    removals[#removals + 1] = 'v'
    write('v', int(version))
    if visible == 'offline' then
      seen = now_iso
      write('seen', seen)
      redis.call('SET', seen_key, seen)
    end
  end
  if int(latest) ~= fields['until'] then write('until', int(latest)) end
  if int(count) ~= fields.n then write('n', int(count)) end
  local reply = { latest > now and visible or 'offline', version, latest, seen or '' }
  local function renew_below(least)
    if not fleeting and redis.call('PTTL', state_key) < least then redis.call('PEXPIRE', state_key, STATE_TTL) end
  end
  if #removals + #writes == 0 then
    -- Usually the check of a connected user. Heartbeats do not extend the TTL of the state, so it is extended here.
    renew_below(STATE_TTL / 2)
    return reply
  end
  if #removals > 0 then redis.call('HDEL', state_key, unpack(removals)) end
  if #writes > 0 then redis.call('HSET', state_key, unpack(writes)) end
  -- Not extended by each script, because that would be one more write.
  renew_below(STATE_TTL - HOUR)
  show({ visible = visible, before = before, latest = latest, changed = changed, crossed = crossed, left = math.max(latest - now, 1) })
  if crossed and not (silent and visible ~= 'offline') then
    local channel = visible == 'offline' and offline_channel or online_channel
    redis.call('PUBLISH', channel,
      '{"userId":"' .. user .. '","timestamp":"' .. now_iso .. '","version":' .. int(version) .. '}')
  end
  if changed then
    redis.call('PUBLISH', watch_channel, '\1' .. visible .. ' ' .. int(version) .. ' ' .. (seen or '-') .. ' ' .. user)
  end
  return reply
end

load()
