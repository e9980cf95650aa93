-- Fixed window: counts requests from the first one until the window is over.
-- KEYS[1] rate_limit:{id}
-- ARGV[1] now, ms
-- ARGV[2] requests per window
-- ARGV[3] window, ms
-- ARGV[4] cost: as how many requests this one counts
-- ARGV[5] '1' to check without counting
-- ARGV[6] random text, unique per request: a repeated call is counted once
-- Reply: { allowed 1 or 0, limit, remaining, ms until the limit is completely free, ms until the cost fits or -1 }
local key, now, limit, window = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local cost, peek, member = tonumber(ARGV[4]), ARGV[5] == '1', ARGV[1] .. '-' .. ARGV[6]

local used, ms_left, start = 0, window, now
local oldest = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
if oldest[2] then
  local window_start = tonumber(oldest[2])
  if window_start + window > now then
    -- A node whose clock is a little behind must not move the window.
    start = math.max(window_start, now)
    ms_left = math.ceil(math.min(window, window_start + window - now))
    used = redis.call('ZCARD', key)
  elseif not peek then
    redis.call('DEL', key)
  end
end

local is_new_window, allowed = used == 0, used + cost <= limit
if not peek then
  if allowed then
    local score = string.format('%.0f', start)
    local entries = { score, member }
    for nth = 2, cost do
      entries[2 * nth - 1], entries[2 * nth] = score, member .. '-' .. nth
    end
    used = used + redis.call('ZADD', key, unpack(entries))
  else
    allowed = redis.call('ZSCORE', key, member) ~= false
  end
  if is_new_window or redis.call('PTTL', key) == -1 then
    redis.call('PEXPIRE', key, string.format('%.0f', ms_left))
  end
end
if used == 0 then ms_left = 0 end
return { allowed and 1 or 0, limit, math.max(0, limit - used), ms_left, allowed and -1 or ms_left }
