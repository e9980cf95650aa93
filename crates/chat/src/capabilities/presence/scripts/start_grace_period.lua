-- Starts the grace period of a device whose connection is lost. Later heartbeats of that connection are ignored.
-- ARGV[9]  device
-- ARGV[10] boot id that must hold the device
-- ARGV[11] time of the connection, which must match
-- ARGV[12] `deferred` as in remove_device.lua
-- ARGV[13] grace period, ms
-- Reply: that of `commit_state`
local id, boot_id, connected, mode, grace = ARGV[9], ARGV[10], ARGV[11], ARGV[12], tonumber(ARGV[13])

local device = devices[id]
if device and device.boot_id == boot_id and device.connected == connected then
  device.boot_id = ''
  device.deadline = math.min(device.deadline, now + grace)
  set_device(id, device)
elseif not state_exists and mode == 'deferred' then
  assume_online()
end
return commit_state(false)
