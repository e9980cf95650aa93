-- Writes fields of a session hash, and records that the hash agrees with the rows. Fields of other services stay.
-- KEYS[1]  session hash
-- KEYS[2]  check key, `revoked_before|epoch|fingerprint`
-- ARGV[1]  store epoch
-- ARGV[2]  time up to which tokens are revoked (unix seconds), from the row
-- ARGV[3]  session TTL, ms
-- ARGV[4]  'begin' (a session begins), 'update', 'delete', or 'unblock' (like 'update', but the hash does not
--          count as compared with the rows)
-- ARGV[5]  for 'begin': time at which the token was issued (unix seconds); otherwise: fingerprint that the hash must have
-- ARGV[6]  value that the check key must have, except for 'begin'
-- ARGV[7…] fields and values to write; for 'delete' the fields to remove
-- Reply    {'written', the device before or ''}; {'blocked'}; {'blocked_elsewhere'}: another service has blocked the
--          user; {'revoked'}; {'foreign'}: the key is not a session; {'conflict'}: one of the keys has changed
local session, check_key = KEYS[1], KEYS[2]
local epoch, revoked, ttl, mode = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local expected, expected_check = ARGV[5], ARGV[6]

local function fingerprint()
  local fields = redis.pcall('HMGET', session, 'login_time', 'active', 'status', 'device_id')
  if fields.err or ((fields[4] or '') == '' and redis.call('EXISTS', session) == 1) then
    return nil
  elseif (fields[4] or '') == '' then
    return '', {}
  end
  return string.format('%s|%s|%s|%s', fields[1] or '', fields[2] or '', fields[3] or '', fields[4]), fields
end

local check = redis.call('GET', check_key) or ''
local was_revoked, verified_epoch, recorded = string.match(check, '^(%d+)|(%d+)|(.*)$')
revoked = math.max(revoked, tonumber(was_revoked or 0))
local before, fields = fingerprint()
if not before then
  return {'foreign'}
end
if mode == 'begin' then
  local blocked = fields[2] == 'false' or fields[3] == 'blocked'
  local known_active, known_status = string.match(recorded or '', '^[^|]*|([^|]*)|([^|]*)|')
  local known = known_active == 'false' or known_status == 'blocked'
  if blocked and not known then
    return {'blocked_elsewhere'}
  elseif blocked and verified_epoch == epoch then
    -- The user was blocked after the row of this session was written. In another epoch the hash is outdated.
    return {'blocked'}
  elseif tonumber(expected) <= revoked then
    return {'revoked'}
  end
elseif before ~= expected or check ~= expected_check then
  return {'conflict'}
end

local values = {}
for i = 7, #ARGV do
  values[#values + 1] = ARGV[i]
end
if mode == 'delete' then
  redis.call('HDEL', session, unpack(values))
elseif #values > 0 then
  redis.call('HSET', session, unpack(values))
  -- The TTL of a hash that another service has created without one, or with a longer one, stays.
  local remaining = redis.call('PTTL', session)
  if before == '' or remaining >= 0 and remaining < ttl then
    redis.call('PEXPIRE', session, ttl)
  end
end
local after = mode ~= 'unblock' and fingerprint() or ''
redis.call('SET', check_key, string.format('%.0f|%s|%s', revoked, epoch, after), 'PX', ttl)
return {'written', fields[4] or ''}
