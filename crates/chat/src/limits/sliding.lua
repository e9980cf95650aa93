-- So many requests within any window.
-- KEYS[1] sliding_limit:{id}
-- ARGV[1] now, ms
-- ARGV[2] requests per window
-- ARGV[3] window, ms
-- ARGV[4] requests that this one counts as
-- ARGV[5] '1' to look only
-- ARGV[6] what no other request is marked with; the same request again takes no further place
-- Reply: { allowed 1 or 0, limit, remaining, ms until all is free, ms until it fits or -1 }
local key, now, limit, window = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local cost, peek, member = tonumber(ARGV[4]), ARGV[5] == '1', ARGV[1] .. '-' .. ARGV[6]

redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now - window))
local used = redis.call('ZCARD', key)

-- When the entry at this place, counted from the oldest, is free. No key outlives the window.
local function free(place)
  local entry = redis.call('ZRANGE', key, place, place, 'WITHSCORES')
  return entry[2] and math.ceil(math.min(window, tonumber(entry[2]) + window - now)) or 0
end

local allowed, reset, retry = used + cost <= limit, nil, -1
if not allowed then
  if not peek then allowed = redis.call('ZSCORE', key, member) ~= false end
  if not allowed then retry = free(used + cost - limit - 1) end
  if not peek and redis.call('PTTL', key) == -1 then redis.call('PEXPIRE', key, ARGV[3]) end
elseif not peek then
  local entries = { ARGV[1], member }
  for nth = 2, cost do
    entries[2 * nth - 1], entries[2 * nth] = ARGV[1], member .. '-' .. nth
  end
  used = used + redis.call('ZADD', key, unpack(entries))
  redis.call('PEXPIRE', key, ARGV[3])
  reset = window
end
return { allowed and 1 or 0, limit, math.max(0, limit - used), reset or free(-1), retry }
