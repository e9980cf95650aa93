-- Time has passed, or a node has died: what is over is removed.
-- ARGV[9]  node whose devices are over, or ''
-- ARGV[10] epoch of that node that lives, or ''
-- ARGV[11] the latest deadline, ms, that a device can have from before the node died: with a later one it has come back
-- Reply: that of `settle`
local dead, alive, latest = ARGV[9], ARGV[10], tonumber(ARGV[11])

-- The state is over, since no node ran for so long, and the layout `sockets` still shows a socket: nothing of it ends by itself.
if not known and KEYS[4] and redis.call('EXISTS', KEYS[4]) == 1 then assume_online() end
drop_lapsed()
for id, device in pairs(devices) do
  local bound = device.epoch ~= 'api' and device.epoch ~= ''
  local over = bound and device.node == dead and device.epoch ~= alive and device.deadline <= latest
  if dead ~= '' and over then drop(id) end
end
return settle(false)
