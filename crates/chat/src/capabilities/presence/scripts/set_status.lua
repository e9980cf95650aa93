-- Sets the explicit status of a user. Without a live device nothing changes.
-- ARGV[9] online, away, busy or offline
-- Reply: that of `commit_state`
local status = ARGV[9]

local live = false
for _, device in pairs(devices) do
  live = live or device.deadline > now
end
if live then
  if status == 'online' then set_explicit_status(nil) else set_explicit_status(status) end
end
return commit_state(false)
