-- Starts the grace period of a device whose connection is lost. Later heartbeats of that connection are ignored.
-- ARGV[10] id of the entry, as in connect_device.lua
-- ARGV[11] boot id that must hold the device
-- ARGV[12] time of the connection, which must match
-- ARGV[13] `deferred` as in remove_device.lua
-- ARGV[14] grace period, ms
-- Reply: that of `commit_state`
local id, boot_id, connected, mode, grace = ARGV[10], ARGV[11], ARGV[12], ARGV[13], tonumber(ARGV[14])

local device = devices[id]
if device and device.boot_id == boot_id and device.connected == connected then
  device.boot_id = ''
  device.deadline = math.min(device.deadline, now + grace)
  set_device(id, device)
elseif not state_exists and mode == 'deferred' then
  assume_online()
end
return commit_state(false)
