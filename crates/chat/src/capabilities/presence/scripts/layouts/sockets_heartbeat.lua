-- Layout `sockets`: a heartbeat refreshes nothing, because no key of the layout has a TTL. The state has none while the
-- user has a device: it says which members of the set are Parlor's.
local KEEPS_STATE = true

local function refresh_layout()
  local remaining = redis.call('PTTL', KEYS[3])
  -- The last node had stopped, and the keys were to expire, or have expired.
  if remaining >= 0 then
    redis.call('PERSIST', KEYS[3])
    redis.call('PERSIST', KEYS[4])
  end
  return remaining ~= -2
end

local function extend_external_lease() end
