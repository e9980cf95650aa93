-- Extends the deadlines of connected devices after a restart of the store, which has the deadlines of some earlier
-- time. Devices in their grace period keep their deadline.
-- Reply: 1 if a deadline was extended
for id, device in pairs(devices) do
  if device.boot_id ~= '' and device.deadline < now + ttl then
    device.deadline = now + ttl
    set_device(id, device)
    -- The keys of the layout may have expired.
    added_ids[id] = true
  end
end
-- Without such a device nothing is written: the next sweep expires the devices with a write that reaches the disk.
if not next(added_ids) then return 0 end
commit_state(false, true)
return 1
