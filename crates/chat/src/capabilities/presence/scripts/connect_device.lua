-- Registers a device, or restores one that the store lost.
-- ARGV[9]  device
-- ARGV[10] node that registers it
-- ARGV[11] boot id of the node, or `api` for a device without a socket
-- ARGV[12] time of the connection, ISO 8601
-- ARGV[13] client description as JSON, or ''
-- ARGV[14] `restore` if the store has known the device: a state that was lost is restored without `events:user.online`
-- ARGV[15] `visible` to clear the explicit status
-- ARGV[16] time since which the device is connected, ms, as in beat_device.lua; '' for a new connection
-- ARGV[17] maximum number of devices of a user
-- Reply: that of `commit_state`, then 0 registered, 1 the device was removed meanwhile, 2 the user has too many devices
local id, node, boot_id, connected, info = ARGV[9], ARGV[10], ARGV[11], ARGV[12], ARGV[13]
local mode, visibility, connected_since, max_devices = ARGV[14], ARGV[15], tonumber(ARGV[16]), tonumber(ARGV[17])
local state_was_lost = not state_exists

remove_expired_devices()
local current_holder = devices[id]

local function rejection_code()
  if connected_since and was_removed_since(id, boot_id, connected_since) then return 1 end
  local others = 0
  for _ in pairs(devices) do others = others + 1 end
  return not current_holder and others >= max_devices and 2 or 0
end

local rejection = rejection_code()
-- An explicit status ends with the last device, even if no sweep has removed that device yet.
if rejection == 0 and (visibility == 'visible' or not next(devices)) then set_explicit_status(nil) end
if rejection > 0 then
  -- Rejected: the device is not written.
elseif boot_id == 'api' and current_holder and current_holder.boot_id ~= 'api' and current_holder.boot_id ~= '' then
  -- A request names a device that is held by a socket: the socket keeps it.
  current_holder.deadline = now + ttl
  set_device(id, current_holder)
  refreshed_ids[id] = true
else
  -- The removals may contain the expired entry of this device: they are executed before the writes.
  if info ~= '' then
    set_field('i:' .. id, info)
  elseif current_holder and current_holder.info then
    fields_to_delete[#fields_to_delete + 1] = 'i:' .. id
  end
  if tombstones[id] and boot_id ~= 'api' then fields_to_delete[#fields_to_delete + 1] = 'g:' .. id end
  set_device(id, { node = node, boot_id = boot_id, deadline = now + ttl, connected = connected, info = info ~= '' and info or nil })
  added_ids[id] = true
end
local reply = commit_state(mode == 'restore' and state_was_lost)
reply[5] = rejection
return reply
