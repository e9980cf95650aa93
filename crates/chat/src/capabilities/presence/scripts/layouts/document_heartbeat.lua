-- Layout `document`: the document, and what a heartbeat refreshes. The state has the time of the own document in `doc`,
-- and in `lease` the time until which another service wanted the key to exist when Parlor last replaced its document.
local KEEPS_STATE = false

local function document_json(ms)
  return '{"userId":"' .. ARGV[1] .. '","status":"online","lastSeen":' .. ms .. '}'
end

-- The time, ms, until which another service keeps the key, or 0. False if its document has no TTL.
local function foreign_lease()
  local own, lease = unpack(redis.call('HMGET', KEYS[1], 'doc', 'lease'))
  local document = redis.call('GET', KEYS[3])
  lease = tonumber(lease) or 0
  if not document then return 0 end
  if own and document == document_json(own) then return lease end
  local remaining = redis.call('PTTL', KEYS[3])
  return remaining >= 0 and math.max(lease, tonumber(ARGV[2]) + remaining)
end

local function write_document(left)
  local lease = foreign_lease()
  -- A document without a TTL stays: Parlor would make it expire.
  if not lease then return end
  local now = tonumber(ARGV[2])
  redis.call('SET', KEYS[3], document_json(ARGV[2]), 'PX', math.max(left, lease - now))
  redis.call('HSET', KEYS[1], 'doc', ARGV[2], 'lease', string.format('%.0f', lease))
end

local function refresh_layout(_, _, status, left)
  if status ~= 'offline' then write_document(left) end
  return true
end

local function extend_external_lease() end
