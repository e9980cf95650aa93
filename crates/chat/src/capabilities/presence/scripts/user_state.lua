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
local state_key, last_seen_key = KEYS[1], KEYS[2]
local user, now, now_iso = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local ttl, offline_ttl = tonumber(ARGV[4]), tonumber(ARGV[5])
local online_channel, offline_channel, watch_channel = ARGV[6], ARGV[7], ARGV[8]
local STATE_TTL = 48 * 3600 * 1000
local HOUR = 3600 * 1000

local function format_integer(number)
  return string.format('%.0f', number)
end

-- devices[id] = { node, boot_id, deadline, connected, info }. The boot id `api` is a device without a socket; an empty
-- one is a device whose connection is lost.
local devices, fields, state_exists = {}, {}, false
-- tombstones[id] = time at which a device was removed, ms.
local tombstones = {}
local fields_to_set, fields_to_delete = {}, {}
-- Devices that this script added, refreshed and removed, for the layout.
local added_ids, refreshed_ids, removed_ids = {}, {}, {}

local function set_field(field, value)
  fields_to_set[#fields_to_set + 1] = field
  fields_to_set[#fields_to_set + 1] = value
end

local function load_state()
  local raw, infos = redis.call('HGETALL', state_key), {}
  for at = 1, #raw, 2 do
    local kind, id, value = string.sub(raw[at], 1, 2), string.sub(raw[at], 3), raw[at + 1]
    state_exists = true
    if kind == 'd:' then
      local node, boot_id, deadline, connected = string.match(value, '^([^#]*)#([^|]*)|(%d+)|(.*)$')
      if node then
        devices[id] = { node = node, boot_id = boot_id, deadline = tonumber(deadline), connected = connected }
      else
        -- Written by another version: its node registers the device again.
        fields_to_delete[#fields_to_delete + 1] = raw[at]
      end
    elseif kind == 'i:' then
      infos[id] = value
    elseif kind == 'g:' then
      tombstones[id] = tonumber(value)
    else
      fields[raw[at]] = value
    end
  end
  for id, info in pairs(infos) do
    if devices[id] then devices[id].info = info end
  end
end

local function set_device(id, device)
  devices[id] = device
  set_field('d:' .. id, device.node .. '#' .. device.boot_id .. '|' .. format_integer(device.deadline) .. '|' .. device.connected)
end

local function remove_device(id)
  fields_to_delete[#fields_to_delete + 1] = 'd:' .. id
  if devices[id].info then fields_to_delete[#fields_to_delete + 1] = 'i:' .. id end
  devices[id] = nil
  removed_ids[#removed_ids + 1] = id
end

local function remove_expired_devices()
  for id, device in pairs(devices) do
    if device.deadline <= now then remove_device(id) end
  end
end

-- True if a device was removed at or after `since`, ms. For a device with a socket its tombstone decides, for a device
-- without a socket the user's last clean disconnect or removal.
local function was_removed_since(id, boot_id, since)
  local at = tombstones[id]
  if boot_id == 'api' then at = tonumber(fields.left) end
  return at ~= nil and at >= since
end

local function set_explicit_status(status)
  if status then
    if fields.x ~= status then set_field('x', status) end
  elseif fields.x then
    fields_to_delete[#fields_to_delete + 1] = 'x'
  end
  fields.x = status
end

-- The store lost the state of a user who was online when a node last knew.
local function assume_online()
  state_exists, fields.s = true, 'online'
end

local write_layout

-- Calls `write_layout`; if a key of the layout has a foreign type, deletes the keys and writes them again.
local function write_layout_replacing_wrong_types(view)
  if pcall(write_layout, view) then return end
  for at = 3, #KEYS do redis.call('DEL', KEYS[at]) end
  for id in pairs(devices) do added_ids[id] = true end
  removed_ids, view.changed, view.crossed_offline = {}, true, true
  write_layout(view)
end

-- Writes the state and the layout, and publishes the events. `suppress_online_event` suppresses `events:user.online`.
-- `is_volatile`: overwritten values are not written to disk; such a script does not extend the TTL, because the TTL on
-- disk would end unnoticed.
-- Reply: { visible status, version, latest deadline or 0, last seen or '' }
local function commit_state(suppress_online_event, is_volatile)
  local latest, count = 0, 0
  for _, device in pairs(devices) do
    count = count + 1
    if device.deadline > latest then latest = device.deadline end
  end
  local previous_status, visible = fields.s or 'offline', 'offline'
  if latest > 0 then
    visible = fields.x or 'online'
  else
    set_explicit_status(nil)
  end
  local version, last_seen = tonumber(fields.v) or 0, fields.seen
  if not state_exists and latest == 0 then
    return { visible, version, 0, '' }
  end
  -- A user whose devices have expired reads as offline before a sweep has removed them. If the user is online again,
  -- watchers must receive a change.
  local read_as_offline = previous_status ~= 'offline' and (tonumber(fields['until']) or 0) <= now
  local visible_again = read_as_offline and visible ~= 'offline' and latest > now
  local changed = visible ~= previous_status or visible_again
  local crossed_offline = (visible == 'offline') ~= (previous_status == 'offline')
  if changed then
    version = math.max(version + 1, now)
    set_field('s', visible)
    -- Deleted first: a volatile write does not write an overwritten field to disk, but a published version must be.
    fields_to_delete[#fields_to_delete + 1] = 'v'
    set_field('v', format_integer(version))
    if visible == 'offline' then
      last_seen = now_iso
      set_field('seen', last_seen)
      redis.call('SET', last_seen_key, last_seen)
    end
  end
  if format_integer(latest) ~= fields['until'] then set_field('until', format_integer(latest)) end
  if format_integer(count) ~= fields.n then set_field('n', format_integer(count)) end
  local reply = { latest > now and visible or 'offline', version, latest, last_seen or '' }
  local function extend_ttl_if_below(min_remaining)
    if not is_volatile and redis.call('PTTL', state_key) < min_remaining then redis.call('PEXPIRE', state_key, STATE_TTL) end
  end
  if #fields_to_delete + #fields_to_set == 0 then
    -- Usually the check of a connected user. Heartbeats do not extend the TTL of the state, so it is extended here.
    extend_ttl_if_below(STATE_TTL / 2)
    return reply
  end
  if #fields_to_delete > 0 then redis.call('HDEL', state_key, unpack(fields_to_delete)) end
  if #fields_to_set > 0 then redis.call('HSET', state_key, unpack(fields_to_set)) end
  -- Not extended by each script, because that would be one more write.
  extend_ttl_if_below(STATE_TTL - HOUR)
  write_layout_replacing_wrong_types({ visible = visible, previous_status = previous_status, latest = latest, changed = changed, crossed_offline = crossed_offline, left = math.max(latest - now, 1) })
  if crossed_offline and not (suppress_online_event and visible ~= 'offline') then
    local channel = visible == 'offline' and offline_channel or online_channel
    redis.call('PUBLISH', channel,
      '{"userId":"' .. user .. '","timestamp":"' .. now_iso .. '","version":' .. format_integer(version) .. '}')
  end
  if changed then
    redis.call('PUBLISH', watch_channel, '\1' .. visible .. ' ' .. format_integer(version) .. ' ' .. (last_seen or '-') .. ' ' .. user)
  end
  return reply
end

load_state()
