-- Layout `sockets`: a heartbeat refreshes nothing, because no key of the layout has a TTL.
local function refresh_layout() end
