-- The store was restarted and has the deadlines of some earlier moment: whoever was there gets one more lifetime. Those whose
-- connection was lost have had their time.
-- Reply: 1 if somebody was there
for id, device in pairs(devices) do
  if device.epoch ~= '' and device.deadline < now + ttl then
    device.deadline = now + ttl
    put(id, device)
    -- The keys of the layout may be gone.
    added[id] = true
  end
end
-- Who has nobody there any more is left to the next look, which is kept on disk.
if not next(added) then return 0 end
settle(false, true)
return 1
