-- Reads a session and renews it.
-- KEYS[1]  session hash
-- KEYS[2]  check key, `revoked_before|epoch`: time up to which tokens are revoked (unix seconds), and the store epoch in
--          which the hash was compared with the rows
-- ARGV[1]  store epoch
-- ARGV[2]  time at which the token was issued (unix seconds); empty if the token is not checked
-- ARGV[3]  current time in ms to renew the session; empty to leave it unchanged
-- ARGV[4]  session TTL, ms
-- Reply    {'unverified'}: the rows decide; {'revoked'}; {'missing'};
--          {'present', status, active, device, login time, last seen, address}
local session, check_key = KEYS[1], KEYS[2]
local epoch, issued, now, ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local revoked, verified_epoch = string.match(redis.call('GET', check_key) or '', '^(%d+)|(%d+)$')
if verified_epoch ~= epoch then
  return {'unverified'}
end
if issued ~= '' and tonumber(issued) <= tonumber(revoked) then
  return {'revoked'}
end
local fields = redis.pcall('HMGET', session, 'status', 'active', 'device_id', 'login_time', 'last_seen', 'ip_address')
-- A key of another type is treated as a missing session.
if fields.err or not (fields[1] or fields[2] or fields[3]) then
  return {'missing'}
end
if now ~= '' then
  redis.call('HSET', session, 'last_seen', now)
  redis.call('PEXPIRE', session, ttl)
  redis.call('PEXPIRE', check_key, ttl)
end
local reply = {'present'}
for i = 1, 6 do
  reply[i + 1] = fields[i] or ''
end
return reply
