-- A clean goodbye: the device is gone at once.
-- ARGV[9]  device
-- ARGV[10] epoch that must hold it, or '' for any: then it is removed, and whoever holds it may not bring it back
-- ARGV[11] connected at, which must be that of the device, or '' for any
-- ARGV[12] `missed` when the store was away as it happened: if it came back empty, the goodbye is announced all the same
-- Reply: that of `settle`
local id, epoch, connected, mode = ARGV[9], ARGV[10], ARGV[11], ARGV[12]
local MOST_GRAVES = 16

local function bury()
  local oldest, count = nil, 0
  for other, at in pairs(graves) do
    count = count + 1
    if not oldest or at < graves[oldest] then oldest = other end
  end
  if count >= MOST_GRAVES and not graves[id] then removals[#removals + 1] = 'g:' .. oldest end
  write('g:' .. id, int(now))
end

local device = devices[id]
local ours = device and (epoch == '' or device.epoch == epoch) and (connected == '' or device.connected == connected)
if ours then
  drop(id)
elseif not known and mode == 'missed' then
  assume_online()
end
if epoch == '' then bury() end
if ours or epoch == '' or epoch == 'api' then
  -- Beats of devices that no node holds may still be on their way, also of a user nobody knows.
  known = true
  write('left', int(now))
end
return settle(false)
