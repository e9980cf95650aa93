-- A clean goodbye: the device is gone at once.
-- ARGV[9]  device
-- ARGV[10] epoch that must hold it, or '' for any
-- ARGV[11] connected at, which must be that of the device, or '' for any
-- ARGV[12] `missed` when the store was away as it happened: if it came back empty, the goodbye is announced all the same
-- Reply: that of `settle`
local id, epoch, connected, mode = ARGV[9], ARGV[10], ARGV[11], ARGV[12]

local device = devices[id]
if device and (epoch == '' or device.epoch == epoch) and (connected == '' or device.connected == connected) then
  drop(id)
elseif not known and mode == 'missed' then
  assume_online()
end
return settle(false)
