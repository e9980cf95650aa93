-- Registers a device, or restores one that the store lost.
-- ARGV[10] id of the entry: the socket id, or the device id of a device without a socket
-- ARGV[11] node that registers it
-- ARGV[12] boot id of the node, or `api` for a device without a socket
-- ARGV[13] time of the connection, ISO 8601
-- ARGV[14] client description as JSON, or ''
-- ARGV[15] `restore` if the store has known the device: a state that was lost is restored without `events:user.online`
-- ARGV[16] `visible` to clear the explicit status
-- ARGV[17] time since which the device is connected, ms, as in beat_device.lua; '' for a new connection
-- ARGV[18] maximum number of devices of a user
-- ARGV[19] device
-- Reply: that of `commit_state`, then 0 registered, 1 the device was removed meanwhile or its heartbeat may not register
--        it, 2 the user has too many devices, 3 an open socket holds the device that a request names
local id, node, boot_id, connected, info = ARGV[10], ARGV[11], ARGV[12], ARGV[13], ARGV[14]
local mode, visibility, connected_since = ARGV[15], ARGV[16], tonumber(ARGV[17])
local max_devices, device_id = tonumber(ARGV[18]), ARGV[19]
local is_new, is_request, state_was_lost = not connected_since, boot_id == 'api', not state_exists

remove_expired_devices()
local is_live = next(devices) ~= nil
if is_live or not is_new then try_layout(adopt_external_status) end

-- Entries of the same device: a new connection replaces lost ones and one without a socket; open sockets stay.
local replaced_ids, open_ids, others = {}, {}, 0
for other_id, other in pairs(devices) do
  if other.device ~= device_id then
    others = others + 1
  elseif has_open_socket(other) then
    open_ids[#open_ids + 1] = other_id
    if other_id ~= id then others = others + 1 end
  elseif other_id ~= id then
    replaced_ids[#replaced_ids + 1] = other_id
  end
end

local function rejection_code()
  if connected_since and was_removed_since(device_id, boot_id, connected_since) then return 1 end
  -- A heartbeat does not end an explicit `offline`.
  if is_request and not is_new and fields.x == 'offline' then return 1 end
  if is_request and #open_ids > 0 then return 0 end
  return not devices[id] and #replaced_ids == 0 and others >= max_devices and 2 or 0
end

local rejection = rejection_code()
if rejection == 0 then
  request.connect, request.heartbeat, request.show = is_new, true, visibility == 'visible'
  -- An explicit status ends with the last device, even if no sweep has removed that device yet.
  if request.show or (is_new and not is_live) then set_explicit_status(nil) end
  if is_request and #open_ids > 0 then
    -- A request names a device that is held by a socket: the socket keeps it.
    for _, open_id in ipairs(open_ids) do extend_device(open_id) end
    rejection = 3
  else
    for _, replaced_id in ipairs(replaced_ids) do remove_device(replaced_id) end
    -- The removals may contain the expired entry of this device: they are executed before the writes.
    if info ~= '' then
      set_field('i:' .. id, info)
    elseif devices[id] and devices[id].info then
      fields_to_delete[#fields_to_delete + 1] = 'i:' .. id
    end
    if tombstones[device_id] and not is_request then fields_to_delete[#fields_to_delete + 1] = 'g:' .. device_id end
    local entry = { node = node, boot_id = boot_id, deadline = now + ttl, connected = connected, device = device_id }
    entry.info = info ~= '' and info or nil
    set_device(id, entry)
    added_ids[id] = true
  end
end
local reply = commit_state(mode == 'restore' and state_was_lost)
reply[7] = rejection
return reply
