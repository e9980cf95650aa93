-- A device appears, or takes its place anew.
-- ARGV[9]  device
-- ARGV[10] node that holds it
-- ARGV[11] epoch of the node, or `api`
-- ARGV[12] connected at, ISO 8601
-- ARGV[13] what the client says about the device, as JSON, or ''
-- ARGV[14] `restore` when the node had it before: a state that the store lost comes back without an announcement
-- ARGV[15] `visible` when the user wants to be seen with it: an explicit status ends
-- ARGV[16] since when it is there, ms, as in beat.lua; '' when it comes just now
-- ARGV[17] how many devices a user may have
-- Reply: that of `settle`, then 0 done, 1 it was ended meanwhile, 2 the user has too many
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
-- An explicit status ends with the last device, also when nobody has looked yet.
if refused == 0 and (wish == 'visible' or not next(devices)) then explicit(nil) end
if refused > 0 then
  -- Nothing of it.
elseif epoch == 'api' and holder and holder.epoch ~= 'api' and holder.epoch ~= '' then
  -- A request of a device whose socket a node holds: the socket keeps it.
  holder.deadline = now + ttl
  put(id, holder)
  beaten[id] = true
else
  -- Its own lapsed entry may be among the removals: those are done before the writes.
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
