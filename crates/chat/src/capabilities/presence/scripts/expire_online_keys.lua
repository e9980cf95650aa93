-- Layout `sockets`: sets a TTL on the keys of a user who is online by a node that has crashed.
-- KEYS[1] parlor:presence:{user}
-- KEYS[2] user:{user}:online
-- KEYS[3] user:{user}:sockets
-- ARGV[1] user
-- ARGV[2] TTL, ms
-- ARGV[3] '1' to set the TTL, '0' to report only
-- Reply   1 if the keys say that the user is online, have no TTL, and all sockets are Parlor's; otherwise 0
local state, flag, sockets = KEYS[1], KEYS[2], KEYS[3]
local user, ttl, applies = ARGV[1], ARGV[2], ARGV[3] == '1'

local value, members = redis.pcall('GET', flag), redis.pcall('SMEMBERS', sockets)
if value ~= 'true' or members.err or redis.call('PTTL', flag) ~= -1 or redis.call('EXISTS', state) == 0 then
  return 0
end
for _, member in ipairs(members) do
  -- A device without a socket is stored with the name of its user.
  local device = string.sub(member, -#user - 1) == '~' .. user and string.sub(member, 1, -#user - 2) or member
  if redis.call('HEXISTS', state, 'd:' .. member) == 0 and redis.call('HEXISTS', state, 'd:' .. device) == 0 then
    return 0
  end
end
if applies then
  redis.call('PEXPIRE', flag, ttl)
  redis.call('PEXPIRE', sockets, ttl)
end
return 1
