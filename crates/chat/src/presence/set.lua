-- The user says how they want to be seen. Without a device there is nothing to see.
-- ARGV[9] online, away, busy or offline
-- Reply: that of `settle`
local status = ARGV[9]

if next(devices) then
  if status == 'online' then explicit(nil) else explicit(status) end
end
return settle(false)
