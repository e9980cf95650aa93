-- Sliding window: counts the requests of the last `window` milliseconds.
-- KEYS[1] sliding_limit:{id}
-- ARGV[1] now, ms
-- ARGV[2] requests per window
-- ARGV[3] window, ms
-- ARGV[4] cost: as how many requests this one counts
-- ARGV[5] '1' to check without counting
-- ARGV[6] random text, unique per request: a repeated call is counted once
-- Reply: { allowed 1 or 0, limit, remaining, ms until the limit is completely free, ms until the cost fits or -1 }
local key, now, limit, window = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local cost, peek, member = tonumber(ARGV[4]), ARGV[5] == '1', ARGV[1] .. '-' .. ARGV[6]

redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now - window))
local used = redis.call('ZCARD', key)

-- Milliseconds until the entry at this index leaves the window; 0 is the oldest. At most the key's TTL.
local function ms_until_free(index)
  local entry = redis.call('ZRANGE', key, index, index, 'WITHSCORES')
  return entry[2] and math.ceil(math.min(window, tonumber(entry[2]) + window - now)) or 0
end

local allowed, reset, retry = used + cost <= limit, nil, -1
if not allowed then
  if not peek then allowed = redis.call('ZSCORE', key, member) ~= false end
  if not allowed then retry = ms_until_free(used + cost - limit - 1) end
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
return { allowed and 1 or 0, limit, math.max(0, limit - used), reset or ms_until_free(-1), retry }
