-- Extends the deadline of a device after a heartbeat. An expired device that no sweep has removed yet is kept.
-- ARGV[9]  device
-- ARGV[10] node that sends the heartbeat
-- ARGV[11] boot id of the node, or `api`
-- ARGV[12] since when the device is known to be connected, ms: connect of a socket; of another device, this heartbeat
-- Reply: 1 written, 0 device unknown or connection lost, 2 held by another node or socket, 3 device removed
local id, node, boot_id, connected_since = ARGV[9], ARGV[10], ARGV[11], tonumber(ARGV[12])

local device = devices[id]
if not device or device.boot_id == '' then return was_removed_since(id, boot_id, connected_since) and 3 or 0 end
if device.boot_id ~= boot_id or (boot_id ~= 'api' and device.node ~= node) then return 2 end
device.deadline = now + ttl
remove_expired_devices()
set_device(id, device)
refreshed_ids[id] = true
commit_state(false, true)
return 1
