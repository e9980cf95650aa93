-- Sets the explicit status of a user. Without a live device only `offline` has an effect, until another status is set.
-- ARGV[10] online, away, busy or offline
-- Reply: that of `commit_state`
local status = ARGV[10]

local is_live = false
for _, device in pairs(devices) do
  is_live = is_live or device.deadline > now
end
if status == 'offline' then
  request.hide = true
  set_explicit_status(status)
else
  request.show = true
  -- Without this, an expired device that no sweep has removed yet would become visible.
  if not is_live and fields.x == 'offline' then remove_expired_devices() end
  set_explicit_status(is_live and status ~= 'online' and status or nil)
end
return commit_state(false)
