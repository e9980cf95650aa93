-- A place in the window of a user's messages is free again. The window ends when it would have.
-- KEYS[1] rate:message:{user}
-- Reply: nothing
local key = KEYS[1]

local text = redis.call('GET', key) or ''
if string.find(text, '^%-?%d+$') then
  if tonumber(text) > 1 then redis.call('DECR', key) else redis.call('DEL', key) end
end
return redis.status_reply('OK')
