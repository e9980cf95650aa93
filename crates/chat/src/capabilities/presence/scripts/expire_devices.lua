-- Removes expired devices, and the devices of a dead node.
-- ARGV[9]  dead node, or ''
-- ARGV[10] boot id of that node that is alive, or ''
-- ARGV[11] latest deadline, ms, that a device from before the node's death can have; a later one means that the node
--          has returned
-- Reply: that of `commit_state`
local dead_node, live_boot_id, latest_deadline = ARGV[9], ARGV[10], tonumber(ARGV[11])

-- The state expired because no node was running, but the layout `sockets` still has a socket: its keys have no TTL.
if not state_exists and KEYS[4] and redis.call('EXISTS', KEYS[4]) == 1 then assume_online() end
remove_expired_devices()
for id, device in pairs(devices) do
  local has_socket = device.boot_id ~= 'api' and device.boot_id ~= ''
  local is_of_dead_node = has_socket and device.node == dead_node and device.boot_id ~= live_boot_id and device.deadline <= latest_deadline
  if dead_node ~= '' and is_of_dead_node then remove_device(id) end
end
return commit_state(false)
