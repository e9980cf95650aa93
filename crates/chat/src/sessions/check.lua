-- Whether a session is there, as far as the store can know.
-- KEYS[1]  the session's hash
-- KEYS[2]  `revoked|epoch`: up to when tokens are revoked (unix seconds), and the epoch the hash was checked in
-- ARGV[1]  the epoch of the store
-- ARGV[2]  when the caller's token was issued (unix seconds), empty if it does not matter
-- ARGV[3]  now in ms to renew the session, empty to leave it
-- ARGV[4]  how long a session lasts, ms
-- Reply    {'cold'}: ask the rows; {'revoked'}; {'gone'}; {'here', status, active, device, login, seen, address}
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
-- What is no hash is no session.
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
