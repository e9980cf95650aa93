-- Removes a device at once: a clean disconnect, or a removal by request.
-- ARGV[9]  device
-- ARGV[10] boot id that must hold the device; '' matches any, and a tombstone keeps the holder from restoring it
-- ARGV[11] time of the connection, which must match, or '' for any
-- ARGV[12] `deferred` if the store was unavailable at the time; the departure is published even if the state was lost
-- Reply: that of `commit_state`
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
  -- Heartbeats of devices without a socket may still be in flight, even for a user without a state.
  known = true
  write('left', int(now))
end
return settle(false)
