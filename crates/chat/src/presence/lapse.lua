-- Time has passed, or a node has died: what is over is removed.
-- ARGV[9]  node whose devices are over, or ''
-- ARGV[10] epoch of that node that lives, or ''
-- Reply: that of `settle`
local dead, alive = ARGV[9], ARGV[10]

drop_lapsed()
for id, device in pairs(devices) do
  local bound = device.epoch ~= 'api' and device.epoch ~= ''
  if dead ~= '' and bound and device.node == dead and device.epoch ~= alive then drop(id) end
end
return settle(false)
