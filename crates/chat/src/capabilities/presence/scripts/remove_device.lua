-- Removes a device at once: a clean disconnect, or a removal by request.
-- ARGV[9]  device
-- ARGV[10] boot id that must hold the device; '' matches any, and a tombstone keeps the holder from restoring it
-- ARGV[11] time of the connection, which must match, or '' for any
-- ARGV[12] `deferred` if the store was unavailable at the time; the departure is published even if the state was lost
-- Reply: that of `commit_state`
local id, boot_id, connected, mode = ARGV[9], ARGV[10], ARGV[11], ARGV[12]
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

local device = devices[id]
local matches = device and (boot_id == '' or device.boot_id == boot_id) and (connected == '' or device.connected == connected)
if matches then
  remove_device(id)
elseif not state_exists and mode == 'deferred' then
  assume_online()
end
if boot_id == '' then add_tombstone() end
if matches or boot_id == '' or boot_id == 'api' then
  -- Heartbeats of devices without a socket may still be in flight, even for a user without a state.
  state_exists = true
  set_field('left', format_integer(now))
end
return commit_state(false)
