-- Takes a counted message of a user back. The end of the window stays the same.
-- KEYS[1] rate:message:{user}
-- Reply: nothing
local key = KEYS[1]

local text = redis.call('GET', key) or ''
if string.find(text, '^%-?%d+$') then
  if tonumber(text) > 1 then redis.call('DECR', key) else redis.call('DEL', key) end
end
return redis.status_reply('OK')
