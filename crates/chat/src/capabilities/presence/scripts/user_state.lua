-- Head of every presence script: the state of one user, and `commit_state`, the only function that changes it.
-- The layout's heartbeat file precedes, the layout itself follows, then the script. All keys are in the user's slot.
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
-- ARGV[9]  `external` if entries of other services count as online, or ''
-- ARGV[10…] arguments of the script itself
local state_key, last_seen_key = KEYS[1], KEYS[2]
local user, now, now_iso = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local ttl, offline_ttl = tonumber(ARGV[4]), tonumber(ARGV[5])
local online_channel, offline_channel, watch_channel = ARGV[6], ARGV[7], ARGV[8]
local counts_external = ARGV[9] ~= ''
local STATE_TTL = 48 * 3600 * 1000
local HOUR, MINUTE = 3600 * 1000, 60 * 1000

local function format_integer(number)
  return string.format('%.0f', number)
end

-- devices[id] = { node, boot_id, deadline, connected, device, info }. The id is the socket id, or the device id of a
-- device without a socket. The boot id `api` is a device without a socket; an empty one is a lost connection.
local devices, fields, state_exists = {}, {}, false
-- tombstones[device] = time at which a device was removed, ms.
local tombstones = {}
local fields_to_set, fields_to_delete = {}, {}
-- Devices that this script added and refreshed, and the removed devices by their id, for the layout.
local added_ids, refreshed_ids, removed = {}, {}, {}
-- Latest deadline before this script, 0 without a device. Keys with a TTL were written to end at this time.
local previous_deadline = 0
-- Actions of this script on behalf of the user: `connect`, `heartbeat` (activity), `show` and `hide` (status).
local request = {}
-- Set if a key has a foreign type. Such a key stays as it is.
local has_wrong_type = false

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
      local node, boot_id, deadline, connected, device = string.match(value, '^([^#]*)#([^|]*)|(%d+)|([^|]*)|?(.*)$')
      if node then
        deadline, device = tonumber(deadline), device ~= '' and device or id
        devices[id] = { node = node, boot_id = boot_id, deadline = deadline, connected = connected, device = device }
        previous_deadline = math.max(previous_deadline, deadline)
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
  local value = device.node .. '#' .. device.boot_id .. '|' .. format_integer(device.deadline) .. '|' .. device.connected
  if device.device ~= id then value = value .. '|' .. device.device end
  set_field('d:' .. id, value)
end

local function remove_device(id)
  fields_to_delete[#fields_to_delete + 1] = 'd:' .. id
  if devices[id].info then fields_to_delete[#fields_to_delete + 1] = 'i:' .. id end
  removed[id], devices[id] = devices[id], nil
end

local function extend_device(id)
  devices[id].deadline = now + ttl
  set_device(id, devices[id])
  refreshed_ids[id] = true
end

local function remove_expired_devices()
  for id, device in pairs(devices) do
    if device.deadline <= now then remove_device(id) end
  end
end

local function has_open_socket(device)
  return device.boot_id ~= 'api' and device.boot_id ~= ''
end

-- True if a device was removed at or after `since`, ms. For a device with a socket its tombstone decides, for a device
-- without a socket the user's last clean disconnect or removal.
local function was_removed_since(device, boot_id, since)
  local at = tombstones[device]
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

-- Functions of the layout. `write_layout` writes the keys. `external_lease` returns the time, ms, until which entries
-- of other services keep the user online, or 0. `adopt_external_status` takes over a status that another service set.
local write_layout, external_lease
local function adopt_external_status() end

-- Runs a function of the layout. If a key has a foreign type, the key stays as it is, and the state goes on without it.
local function try_layout(run, argument)
  local succeeded, result = pcall(run, argument)
  if not succeeded then has_wrong_type = true end
  return succeeded and result
end

local function write_last_seen()
  set_field('seen', now_iso)
  set_field('seenMs', format_integer(now))
  fields.seen = now_iso
  if type(redis.pcall('GET', last_seen_key)) == 'table' then
    has_wrong_type = true
  else
    redis.call('SET', last_seen_key, now_iso)
  end
end

local function extend_state_ttl(min_remaining, has_device)
  local remaining = redis.call('PTTL', state_key)
  if KEEPS_STATE and has_device then
    if remaining >= 0 then redis.call('PERSIST', state_key) end
  elseif remaining < min_remaining then
    redis.call('PEXPIRE', state_key, STATE_TTL)
  end
end

-- Visible status and latest deadline, from own devices and from entries of other services.
local function derive_status(external_until)
  local own_until, count = 0, 0
  for _, device in pairs(devices) do
    own_until, count = math.max(own_until, device.deadline), count + 1
  end
  -- An explicit status ends with the last device, except an explicit `offline`.
  if count == 0 and fields.x ~= 'offline' then set_explicit_status(nil) end
  local latest = math.max(own_until, external_until)
  local visible = latest > 0 and (fields.x or 'online') or 'offline'
  return visible, latest, own_until, count
end

-- Writes the state and the layout, and publishes the events. `suppress_online_event` suppresses `events:user.online`.
-- `is_volatile`: overwritten values are not written to disk; such a script does not extend the TTL, because the TTL on
-- disk would end unnoticed.
-- Reply: { visible status, version, when to check the user next or 0, last seen or '', 1 if only other services keep the
-- user online, 1 if a key has a foreign type }. The next check is due at the latest own deadline; without a device, when
-- the entries of other services end.
local function commit_state(suppress_online_event, is_volatile)
  local external_until = counts_external and try_layout(external_lease) or 0
  if external_until <= now then external_until = 0 end
  local visible, latest, own_until, count = derive_status(external_until)
  local version = tonumber(fields.v) or 0
  local function reply()
    local is_external = own_until <= now and external_until > now and visible ~= 'offline'
    return { latest > now and visible or 'offline', version, own_until > 0 and own_until or latest, fields.seen or '',
      is_external and 1 or 0, has_wrong_type and 1 or 0 }
  end
  if not state_exists and count == 0 and not fields.x then
    local is_external = external_until > 0
    return { is_external and 'online' or 'offline', 0, 0, '', is_external and 1 or 0, has_wrong_type and 1 or 0 }
  end
  local previous = fields.s or 'offline'
  -- A user that another service keeps online was visible before this script.
  local was_visible = previous ~= 'offline' or (external_until > 0 and not request.was_hidden)
  -- A user whose devices have expired reads as offline before a sweep has removed them. If the user is online again,
  -- watchers must receive a change.
  local read_as_offline = previous ~= 'offline' and (tonumber(fields['until']) or 0) <= now
  local visible_again = read_as_offline and visible ~= 'offline' and latest > now
  local changed = visible ~= previous or visible_again
  local crossed_offline = (visible == 'offline') == was_visible
  if changed then
    version = math.max(version + 1, now)
    set_field('s', visible)
    -- Deleted first: a volatile write does not write an overwritten field to disk, but a published version must be.
    fields_to_delete[#fields_to_delete + 1] = 'v'
    set_field('v', format_integer(version))
  end
  local is_active = request.connect or (request.heartbeat and now - (tonumber(fields.seenMs) or 0) >= MINUTE)
  if (changed and visible == 'offline') or (is_active and visible ~= 'offline') then write_last_seen() end
  if format_integer(latest) ~= fields['until'] then set_field('until', format_integer(latest)) end
  if format_integer(count) ~= fields.n then set_field('n', format_integer(count)) end
  -- A status that a user sets is written even if it is the one that Parlor knows: another service may have set another.
  local is_set_by_user = request.show or request.hide
  if #fields_to_delete + #fields_to_set == 0 and not is_set_by_user then
    -- Usually the check of a connected user. Heartbeats do not extend the TTL of the state, so it is extended here.
    if not is_volatile then extend_state_ttl(STATE_TTL / 2, count > 0) end
    return reply()
  end
  if #fields_to_delete > 0 then redis.call('HDEL', state_key, unpack(fields_to_delete)) end
  if #fields_to_set > 0 then redis.call('HSET', state_key, unpack(fields_to_set)) end
  -- Not extended by each script, because that would be one more write.
  if not is_volatile then extend_state_ttl(STATE_TTL - HOUR, count > 0) end
  local is_shown = own_until > 0 and visible ~= 'offline'
  local is_published = try_layout(write_layout, {
    is_shown = is_shown,
    status = visible,
    changed = changed,
    appeared = is_shown and (previous == 'offline' or visible_again),
    own_until = own_until,
    left = math.max(own_until - now, 1),
  })
  if crossed_offline and not is_published and not (suppress_online_event and visible ~= 'offline') then
    local channel = visible == 'offline' and offline_channel or online_channel
    redis.call('PUBLISH', channel,
      '{"userId":"' .. user .. '","timestamp":"' .. now_iso .. '","version":' .. format_integer(version) .. '}')
  end
  if changed then
    redis.call('PUBLISH', watch_channel,
      '\1' .. visible .. ' ' .. format_integer(version) .. ' ' .. (fields.seen or '-') .. ' ' .. user)
  end
  return reply()
end

load_state()
request.was_hidden = fields.x == 'offline'
