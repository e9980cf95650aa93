-- Removes expired devices, and the devices of a dead node.
-- ARGV[9]  dead node, or ''
-- ARGV[10] boot id of that node that is alive, or ''
-- ARGV[11] latest deadline, ms, that a device from before the node's death can have; a later one means that the node
--          has returned
-- Reply: that of `commit_state`
local dead, alive, latest = ARGV[9], ARGV[10], tonumber(ARGV[11])

-- The state expired because no node was running, but the layout `sockets` still has a socket: its keys have no TTL.
if not known and KEYS[4] and redis.call('EXISTS', KEYS[4]) == 1 then assume_online() end
drop_lapsed()
for id, device in pairs(devices) do
  local bound = device.epoch ~= 'api' and device.epoch ~= ''
  local over = bound and device.node == dead and device.epoch ~= alive and device.deadline <= latest
  if dead ~= '' and over then drop(id) end
end
return settle(false)
