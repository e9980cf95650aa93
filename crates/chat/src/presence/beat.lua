-- A device is still there. One that lapsed and that nobody has looked at yet lives on.
-- ARGV[9]  device
-- ARGV[10] node that beats
-- ARGV[11] epoch of the node, or `api`
-- ARGV[12] since when the device is there, ms: of a socket its connect, of others the beat
-- Reply: 1 done, 0 the device is not known or its connection was lost, 2 somebody else holds it, 3 it was ended
local id, node, epoch, since = ARGV[9], ARGV[10], ARGV[11], tonumber(ARGV[12])

local device = devices[id]
if not device or device.epoch == '' then return ended(id, epoch, since) and 3 or 0 end
if device.epoch ~= epoch or (epoch ~= 'api' and device.node ~= node) then return 2 end
device.deadline = now + ttl
drop_lapsed()
put(id, device)
beaten[id] = true
settle(false, true)
return 1
