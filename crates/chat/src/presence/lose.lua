-- A connection is lost: the device has the grace time to come back. Later beats of the lost connection count no more.
-- ARGV[9]  device
-- ARGV[10] epoch that must hold it
-- ARGV[11] connected at, which must be that of the device
-- ARGV[12] `missed` as in leave.lua
-- ARGV[13] grace time, ms
-- Reply: that of `settle`
local id, epoch, connected, mode, grace = ARGV[9], ARGV[10], ARGV[11], ARGV[12], tonumber(ARGV[13])

local device = devices[id]
if device and device.epoch == epoch and device.connected == connected then
  device.epoch = ''
  device.deadline = math.min(device.deadline, now + grace)
  put(id, device)
elseif not known and mode == 'missed' then
  assume_online()
end
return settle(false)
