-- Head of the scripts that end a typing state: other services write the documented key as well.

-- Deletes the documented key while it holds the value that Parlor wrote last: the flag, or the document of the start that
-- ends at `ends`. Returns true if it was deleted. A key of a foreign type stays.
local function delete_own_typing_key(key, ends, ttl)
  local value = redis.pcall('GET', key)
  if type(value) ~= 'string' then return false end
  local own_end = '"timestamp":' .. string.format('%.0f', ends - ttl) .. '}'
  if value ~= '1' and string.sub(value, -#own_end) ~= own_end then return false end
  return redis.call('DEL', key) == 1
end
