-- The store was restarted and has the deadlines of some earlier moment: whoever was there gets one more lifetime. Those whose
-- connection was lost have had their time.
-- Reply: that of `settle`
for id, device in pairs(devices) do
  if device.epoch ~= '' and device.deadline < now + ttl then
    device.deadline = now + ttl
    put(id, device)
    -- The keys of the layout may be gone.
    added[id] = true
  end
end
return settle(false)
