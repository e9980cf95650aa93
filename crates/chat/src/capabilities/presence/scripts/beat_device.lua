-- Extends the deadline of a device after a heartbeat. An expired device that no sweep has removed yet is kept.
-- ARGV[10] id of the entry, as in connect_device.lua
-- ARGV[11] node that sends the heartbeat
-- ARGV[12] boot id of the node, or `api`
-- ARGV[13] since when the device is known to be connected, ms: connect of a socket; of another device, this heartbeat
-- ARGV[14] device
-- Reply: 1 written, 0 device unknown or connection lost, 2 held by another node or socket, 3 device removed
local id, node, boot_id, connected_since, device_id = ARGV[10], ARGV[11], ARGV[12], tonumber(ARGV[13]), ARGV[14]

local device = devices[id]
if not device or device.boot_id == '' then
  if boot_id == 'api' then
    for _, other in pairs(devices) do
      if other.device == device_id and has_open_socket(other) then return 2 end
    end
  end
  if was_removed_since(device_id, boot_id, connected_since) then return 3 end
  if not next(devices) and boot_id == 'api' then try_layout(extend_external_lease) end
  return 0
end
if device.boot_id ~= boot_id or (boot_id ~= 'api' and device.node ~= node) then return 2 end
request.heartbeat = true
try_layout(adopt_external_status)
extend_device(id)
remove_expired_devices()
commit_state(false, true)
return 1
