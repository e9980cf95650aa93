-- Reads a session. Renews it if the hash is as it was when it was last compared with the rows, and the user is not
-- blocked.
-- KEYS[1]  session hash
-- KEYS[2]  check key, `revoked_before|epoch|fingerprint`: time up to which tokens are revoked (unix seconds), store epoch
--          in which the hash was compared with the rows, and `login_time|active|status|device_id` of the hash then
-- ARGV[1]  store epoch
-- ARGV[2]  time at which the token was issued (unix seconds); empty if the token is not checked
-- ARGV[3]  current time in ms to renew the session; empty to leave it unchanged
-- ARGV[4]  session TTL, ms
-- Reply    {verdict, content, value of the check key, status, active, device, login time, last seen, address}
--          verdict: 'verified', 'revoked', or 'unverified' (the rows decide)
--          content: 'session', 'missing', or 'foreign' (not a session)
local session, check_key = KEYS[1], KEYS[2]
local epoch, issued, now, ttl = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local check = redis.call('GET', check_key) or ''
local revoked, verified_epoch, recorded = string.match(check, '^(%d+)|(%d+)|(.*)$')
local fields = redis.pcall('HMGET', session, 'status', 'active', 'device_id', 'login_time', 'last_seen', 'ip_address')
local content, fingerprint = 'session', ''
if fields.err then
  content, fields = 'foreign', {}
elseif (fields[3] or '') == '' then
  content = redis.call('EXISTS', session) == 1 and 'foreign' or 'missing'
else
  fingerprint = string.format('%s|%s|%s|%s', fields[4] or '', fields[2] or '', fields[1] or '', fields[3])
end

-- A session in a hash without a TTL expires as well. A service may have written no time.
local function has_expired(last_seen)
  local time = string.match(last_seen, '^%d+$')
  return time and tonumber(time) < tonumber(now) - ttl
end

local verdict = 'unverified'
if content ~= 'foreign' and verified_epoch == epoch and recorded == fingerprint then
  verdict = 'verified'
  if issued ~= '' and tonumber(issued) <= tonumber(revoked) then
    verdict = 'revoked'
  elseif content == 'session' and now ~= '' and fields[1] ~= 'blocked' and fields[2] ~= 'false'
    and not has_expired(fields[5] or '') then
    redis.call('HSET', session, 'last_seen', now)
    -- A hash without a TTL, or with a longer one, belongs to another service.
    local remaining = redis.call('PTTL', session)
    if remaining >= 0 and remaining < ttl then
      redis.call('PEXPIRE', session, ttl)
    end
    redis.call('PEXPIRE', check_key, ttl)
  end
end
local reply = {verdict, content, check}
for i = 1, 6 do
  reply[i + 3] = fields[i] or ''
end
return reply
