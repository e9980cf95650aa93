-- Lists the users who are typing in a conversation.
-- KEYS[1] parlor:typing:{conv}
-- KEYS[2] parlor:typing:{conv}:names
-- ARGV[1] now, ms
-- Reply: { user, end time in ms, name or nil, user, ... }
local index, names, now = KEYS[1], KEYS[2], ARGV[1]

-- Below the maximum number of arguments of a Lua call.
local PAGE = 1000
local typers = redis.call('ZRANGEBYSCORE', index, '(' .. now, '+inf', 'WITHSCORES')
local reply = {}
for first = 1, #typers, 2 * PAGE do
  local last = math.min(first + 2 * PAGE, #typers + 1) - 2
  local users = {}
  for at = first, last, 2 do users[#users + 1] = typers[at] end
  local called = redis.call('HMGET', names, unpack(users))
  for nth = 1, #users do
    local at = #reply
    reply[at + 1], reply[at + 2], reply[at + 3] = users[nth], typers[first + 2 * nth - 1], called[nth]
  end
end
return reply
