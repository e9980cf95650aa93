-- Removes a device at once: a clean disconnect, or a removal by request.
-- ARGV[10] id of the entry, as in connect_device.lua; for any holder, the device
-- ARGV[11] boot id that must hold the device; '' removes every entry of the device, and a tombstone keeps its sockets from
--          restoring it
-- ARGV[12] time of the connection, which must match, or '' for any
-- ARGV[13] `deferred` if the store was unavailable at the time; the departure is published even if the state was lost
-- Reply: that of `commit_state`
local id, boot_id, connected, mode = ARGV[10], ARGV[11], ARGV[12], ARGV[13]
local MAX_TOMBSTONES = 16

local function add_tombstone()
  local oldest, count = nil, 0
  for other, at in pairs(tombstones) do
    count = count + 1
    if not oldest or at < tombstones[oldest] then oldest = other end
  end
  if count >= MAX_TOMBSTONES and not tombstones[id] then fields_to_delete[#fields_to_delete + 1] = 'g:' .. oldest end
  set_field('g:' .. id, format_integer(now))
end

local matches = false
for entry_id, device in pairs(devices) do
  local is_named = boot_id == '' and device.device == id
  local is_holder = entry_id == id and device.boot_id == boot_id and (connected == '' or device.connected == connected)
  if is_named or is_holder then
    remove_device(entry_id)
    matches = true
  end
end
if not matches and not state_exists and mode == 'deferred' then assume_online() end
if boot_id == '' then add_tombstone() end
if matches or boot_id == '' or boot_id == 'api' then
  -- Heartbeats of devices without a socket may still be in flight, even for a user without a state.
  state_exists = true
  set_field('left', format_integer(now))
end
return commit_state(false)
