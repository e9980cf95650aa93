-- So many requests from the first one on, until the window is over.
-- KEYS[1] rate_limit:{id}
-- ARGV[1] now, ms
-- ARGV[2] requests per window
-- ARGV[3] window, ms
-- ARGV[4] requests that this one counts as
-- ARGV[5] '1' to look only
-- ARGV[6] what no other request is marked with; the same request again takes no further place
-- Reply: { allowed 1 or 0, limit, remaining, ms until all is free, ms until it fits or -1 }
local key, now, limit, window = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local cost, peek, member = tonumber(ARGV[4]), ARGV[5] == '1', ARGV[1] .. '-' .. ARGV[6]

local used, left, start = 0, window, now
local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
if first[2] then
  local began = tonumber(first[2])
  if began + window > now then
    -- A node whose clock is a little behind does not move the window.
    start = math.max(began, now)
    left = math.ceil(math.min(window, began + window - now))
    used = redis.call('ZCARD', key)
  elseif not peek then
    redis.call('DEL', key)
  end
end

local fresh, allowed = used == 0, used + cost <= limit
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
  if fresh or redis.call('PTTL', key) == -1 then
    redis.call('PEXPIRE', key, string.format('%.0f', left))
  end
end
if used == 0 then left = 0 end
return { allowed and 1 or 0, limit, math.max(0, limit - used), left, allowed and -1 or left }
