-- Writes a session as the rows say it is: a new one, or one that has to be checked against them.
-- KEYS[1]  the session's hash
-- KEYS[2]  `revoked|epoch`
-- ARGV[1]  the epoch of the store
-- ARGV[2]  up to when tokens are revoked (unix seconds), by the row
-- ARGV[3]  how long a session lasts, ms
-- ARGV[4]  'open', 'rebuild', or 'set' (the rows changed: whatever is there is wrong)
-- ARGV[5]  of 'open': when the token was issued (unix seconds)
-- ARGV[6]  of 'rebuild': 1 if a block that only the hash knows stands
-- ARGV[7…] fields and values of the hash; none if there is no session
-- Reply    {'done', the device before or ''}; {'blocked'}; {'revoked'}; {'again'}: somebody else was first, look again
local session, companion = KEYS[1], KEYS[2]
local epoch, revoked, ttl, mode = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]

local was, checked = string.match(redis.call('GET', companion) or '', '^(%d+)|(%d+)$')
local current = checked == epoch
if current then
  revoked = math.max(revoked, tonumber(was))
end
local held = redis.pcall('HMGET', session, 'status', 'active', 'device_id')
-- What is no hash is no session.
if held.err then held = {} end
local blocked = held[1] == 'blocked' or held[2] == 'false'

if mode == 'rebuild' and current then
  return {'again'}
end
if mode == 'open' and current and blocked then
  return {'blocked'}
end
if mode == 'open' and tonumber(ARGV[5]) <= revoked then
  return {'revoked'}
end

redis.call('DEL', session)
if #ARGV > 6 then
  local fields = {}
  for i = 7, #ARGV do
    fields[#fields + 1] = ARGV[i]
  end
  redis.call('HSET', session, unpack(fields))
  if mode == 'rebuild' and blocked and ARGV[6] == '1' then
    redis.call('HSET', session, 'status', 'blocked', 'active', 'false')
  end
  redis.call('PEXPIRE', session, ttl)
end
redis.call('SET', companion, string.format('%.0f|%s', revoked, epoch), 'PX', ttl)
return {'done', held[3] or ''}
