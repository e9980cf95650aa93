-- GCRA: admits requests at a steady rate, and after a pause up to `limit` requests at once.
-- KEYS[1] gcra:{id}
-- ARGV[1] now, ms
-- ARGV[2] requests per window, and maximum burst
-- ARGV[3] window, ms
-- ARGV[4] cost: as how many requests this one counts
-- ARGV[5] '1' to check without counting
-- Reply: { allowed 1 or 0, limit, remaining, ms until the limit is completely free, ms until the cost fits or -1 }
local key, now, limit, window = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local cost_units, peek = tonumber(ARGV[4]) * window, ARGV[5] == '1'

-- The unit is 1/`limit` of a millisecond. A request costs `window` units, so all numbers are whole.
local capacity, used = limit * window, 0
local whole, part = string.match(redis.call('GET', key) or '', '^(%d+)%.?(%d*)$')
if whole then
  part = tonumber(string.sub(part .. '00000', 1, 5))
  used = math.max(0, (tonumber(whole) - now) * limit + math.floor(part * limit / 100000 + 0.5))
end
-- More than the capacity: written with another limit, with another clock, or by another service.
local is_implausible = used > capacity
if is_implausible then used = capacity end

local excess = used + cost_units - capacity
local allowed = excess <= 0
if not peek and (allowed or is_implausible) then
  if allowed then used = used + cost_units end
  local value = string.format('%.0f', now + math.floor(used / limit))
  local rest = used % limit
  if rest > 0 then value = value .. string.format('.%05d', math.floor(rest * 100000 / limit + 0.5)) end
  redis.call('SET', key, value, 'PX', string.format('%.0f', math.ceil(used / limit)))
end
return {
  allowed and 1 or 0, limit, math.floor((capacity - used) / window), math.ceil(used / limit),
  allowed and -1 or math.ceil(excess / limit),
}
