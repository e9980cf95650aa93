-- Layout `status`: what a heartbeat refreshes. The TTL is extended only while the value is `online`, whichever service
-- wrote it. The state has in `lease` the time until which another service wanted the key to exist.
local KEEPS_STATE = false
-- Another service uses whole seconds, and its clock differs a little.
local LEASE_TOLERANCE = 1000

-- The time, ms, until which another service keeps the key `online`, or 0. Parlor has set it to end at `deadline`.
local function foreign_lease(deadline)
  if redis.call('GET', KEYS[3]) ~= 'online' then return 0 end
  local now, remaining = tonumber(ARGV[2]), redis.call('PTTL', KEYS[3])
  local lease = tonumber(redis.call('HGET', KEYS[1], 'lease') or 0)
  local ends = now + (remaining < 0 and tonumber(ARGV[4]) or remaining)
  if ends > deadline + LEASE_TOLERANCE then lease = math.max(lease, ends) end
  return lease > now and lease or 0
end

local function extend_lease(left)
  local remaining = redis.call('PTTL', KEYS[3])
  if remaining >= 0 and remaining < left then redis.call('PEXPIRE', KEYS[3], left) end
end

local function refresh_layout(_, _, status, left, deadline)
  local value = redis.call('GET', KEYS[3])
  if status == 'offline' then return value ~= 'online' end
  if value ~= 'online' then return false end
  local lease = foreign_lease(deadline)
  if lease > deadline then redis.call('HSET', KEYS[1], 'lease', string.format('%.0f', lease)) end
  extend_lease(left)
  return true
end

-- The heartbeat of a user that another service set online.
local function extend_external_lease()
  if redis.call('GET', KEYS[3]) == 'online' then extend_lease(tonumber(ARGV[4])) end
end
