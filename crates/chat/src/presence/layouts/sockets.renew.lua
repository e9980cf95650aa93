-- Layout `sockets`: a beat renews nothing, for nothing of it has a time to live.
local function renew() end
