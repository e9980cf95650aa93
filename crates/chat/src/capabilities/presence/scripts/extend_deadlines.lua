-- Extends the deadlines of connected devices after a restart of the store, which has the deadlines of some earlier
-- time. Devices in their grace period keep their deadline.
-- Reply: 1 if a deadline was extended
for id, device in pairs(devices) do
  if device.epoch ~= '' and device.deadline < now + ttl then
    device.deadline = now + ttl
    put(id, device)
    -- The keys of the layout may have expired.
    added[id] = true
  end
end
-- Without such a device nothing is written: the next sweep expires the devices with a write that reaches the disk.
if not next(added) then return 0 end
settle(false, true)
return 1
