-- Writes a session hash from the rows: a new session, a rebuilt one, or the deletion of a session.
-- KEYS[1]  session hash
-- KEYS[2]  check key, `revoked_before|epoch`
-- ARGV[1]  store epoch
-- ARGV[2]  time up to which tokens are revoked (unix seconds), from the row
-- ARGV[3]  session TTL, ms
-- ARGV[4]  'begin', 'rebuild', or 'overwrite' (the rows changed, so the hash is outdated)
-- ARGV[5]  for 'begin': time at which the token was issued (unix seconds)
-- ARGV[6]  for 'rebuild': 1 to keep a block that only the hash contains
-- ARGV[7…] fields and values of the hash; none if there is no session
-- Reply    {'written', the device before or ''}; {'blocked'}; {'revoked'};
--          {'conflict'}: another writer was faster, read again
local session, check_key = KEYS[1], KEYS[2]
local epoch, revoked, ttl, mode = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]

local previous_revoked, verified_epoch = string.match(redis.call('GET', check_key) or '', '^(%d+)|(%d+)$')
local current = verified_epoch == epoch
if current then
  revoked = math.max(revoked, tonumber(previous_revoked))
end
local fields = redis.pcall('HMGET', session, 'status', 'active', 'device_id')
-- A key of another type is treated as a missing session.
if fields.err then fields = {} end
local blocked = fields[1] == 'blocked' or fields[2] == 'false'

if mode == 'rebuild' and current then
  return {'conflict'}
end
if mode == 'begin' and current and blocked then
  return {'blocked'}
end
if mode == 'begin' and tonumber(ARGV[5]) <= revoked then
  return {'revoked'}
end

redis.call('DEL', session)
if #ARGV > 6 then
  local values = {}
  for i = 7, #ARGV do
    values[#values + 1] = ARGV[i]
  end
  redis.call('HSET', session, unpack(values))
  if mode == 'rebuild' and blocked and ARGV[6] == '1' then
    redis.call('HSET', session, 'status', 'blocked', 'active', 'false')
  end
  redis.call('PEXPIRE', session, ttl)
end
redis.call('SET', check_key, string.format('%.0f|%s', revoked, epoch), 'PX', ttl)
return {'written', fields[3] or ''}
