-- Removes expired devices, and the devices of a dead node.
-- ARGV[10] dead node, or ''
-- ARGV[11] boot id of that node that is alive, or ''
-- ARGV[12] latest deadline, ms, that a device from before the node's death can have; a later one means that the node
--          has returned
-- ARGV[13] node whose lost connections alone are removed, or ''
-- Reply: that of `commit_state`
local dead_node, live_boot_id, latest_deadline, own_node = ARGV[10], ARGV[11], tonumber(ARGV[12]), ARGV[13]

if own_node ~= '' then
  for id, device in pairs(devices) do
    if device.boot_id == '' and device.node == own_node and device.deadline <= now then remove_device(id) end
  end
  return commit_state(false)
end
try_layout(adopt_external_status)
remove_expired_devices()
for id, device in pairs(devices) do
  local is_of_dead_node = has_open_socket(device) and device.node == dead_node
  if is_of_dead_node and device.boot_id ~= live_boot_id and device.deadline <= latest_deadline then remove_device(id) end
end
return commit_state(false)
