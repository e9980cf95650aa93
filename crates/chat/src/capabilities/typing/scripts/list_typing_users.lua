-- Lists the users who are typing in a conversation.
-- KEYS[1] parlor:typing:{conv}
-- KEYS[2] parlor:typing:{conv}:names
-- ARGV[1] now, ms
-- Reply: { user, end time in ms, name or nil, user, ... }
local index, names, now = KEYS[1], KEYS[2], ARGV[1]

-- Below the maximum number of arguments of a Lua call.
local PAGE = 1000
local entries = redis.call('ZRANGEBYSCORE', index, '(' .. now, '+inf', 'WITHSCORES')
local reply = {}
for first = 1, #entries, 2 * PAGE do
  local last = math.min(first + 2 * PAGE, #entries + 1) - 2
  local users = {}
  for at = first, last, 2 do users[#users + 1] = entries[at] end
  local names_of_users = redis.call('HMGET', names, unpack(users))
  for nth = 1, #users do
    local at = #reply
    reply[at + 1], reply[at + 2], reply[at + 3] = users[nth], entries[first + 2 * nth - 1], names_of_users[nth]
  end
end
return reply
