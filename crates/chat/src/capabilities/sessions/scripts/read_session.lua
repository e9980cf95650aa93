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
local session, companion = KEYS[1], KEYS[2]
local epoch, issued, now, ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local revoked, checked = string.match(redis.call('GET', companion) or '', '^(%d+)|(%d+)$')
if checked ~= epoch then
  return {'cold'}
end
if issued ~= '' and tonumber(issued) <= tonumber(revoked) then
  return {'revoked'}
end
local held = redis.pcall('HMGET', session, 'status', 'active', 'device_id', 'login_time', 'last_seen', 'ip_address')
-- A key of another type is treated as a missing session.
if held.err or not (held[1] or held[2] or held[3]) then
  return {'gone'}
end
if now ~= '' then
  redis.call('HSET', session, 'last_seen', now)
  redis.call('PEXPIRE', session, ttl)
  redis.call('PEXPIRE', companion, ttl)
end
local reply = {'here'}
for i = 1, 6 do
  reply[i + 1] = held[i] or ''
end
return reply
