-- A device appears, or takes its place anew.
-- ARGV[9]  device
-- ARGV[10] node that holds it
-- ARGV[11] epoch of the node, or `api`
-- ARGV[12] connected at, ISO 8601
-- ARGV[13] what the client says about the device, as JSON, or ''
-- ARGV[14] `restore` when the node had it before: a state that the store lost comes back without an announcement
-- Reply: that of `settle`
local id, node, epoch, connected, info, mode = ARGV[9], ARGV[10], ARGV[11], ARGV[12], ARGV[13], ARGV[14]
local lost = not known

drop_lapsed()
-- An explicit status ends with the last device, also when nobody has looked yet.
if not next(devices) then explicit(nil) end
local holder = devices[id]
if epoch == 'api' and holder and holder.epoch ~= 'api' and holder.epoch ~= '' then
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
  put(id, { node = node, epoch = epoch, deadline = now + ttl, connected = connected, info = info ~= '' and info or nil })
  added[id] = true
end
return settle(mode == 'restore' and lost)
