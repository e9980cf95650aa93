-- Registers a device, or restores one that the store lost.
-- ARGV[9]  device
-- ARGV[10] node that registers it
-- ARGV[11] boot id of the node, or `api` for a device without a socket
-- ARGV[12] time of the connection, ISO 8601
-- ARGV[13] client description as JSON, or ''
-- ARGV[14] `restore` if the store has known the device: a state that was lost is restored without `events:user.online`
-- ARGV[15] `visible` to clear the explicit status
-- ARGV[16] time since which the device is connected, ms, as in beat_device.lua; '' for a new connection
-- ARGV[17] maximum number of devices of a user
-- Reply: that of `commit_state`, then 0 registered, 1 the device was removed meanwhile, 2 the user has too many devices
local id, node, epoch, connected, info = ARGV[9], ARGV[10], ARGV[11], ARGV[12], ARGV[13]
local mode, wish, since, most = ARGV[14], ARGV[15], tonumber(ARGV[16]), tonumber(ARGV[17])
local lost = not known

drop_lapsed()
local holder = devices[id]

local function refusal()
  if since and ended(id, epoch, since) then return 1 end
  local others = 0
  for _ in pairs(devices) do others = others + 1 end
  return not holder and others >= most and 2 or 0
end

local refused = refusal()
-- An explicit status ends with the last device, even if no sweep has removed that device yet.
if refused == 0 and (wish == 'visible' or not next(devices)) then explicit(nil) end
if refused > 0 then
  -- Rejected: the device is not written.
elseif epoch == 'api' and holder and holder.epoch ~= 'api' and holder.epoch ~= '' then
  -- A request names a device that is held by a socket: the socket keeps it.
  holder.deadline = now + ttl
  put(id, holder)
  beaten[id] = true
else
  -- The removals may contain the expired entry of this device: they are executed before the writes.
  if info ~= '' then
    write('i:' .. id, info)
  elseif holder and holder.info then
    removals[#removals + 1] = 'i:' .. id
  end
  if graves[id] and epoch ~= 'api' then removals[#removals + 1] = 'g:' .. id end
  put(id, { node = node, epoch = epoch, deadline = now + ttl, connected = connected, info = info ~= '' and info or nil })
  added[id] = true
end
local reply = settle(mode == 'restore' and lost)
reply[5] = refused
return reply
