-- Layout `document`: the document, and what a heartbeat refreshes.
local function document_json()
  return '{"userId":"' .. ARGV[1] .. '","status":"online","lastSeen":' .. ARGV[2] .. '}'
end

local function refresh_layout(_, _, status, left)
  if status ~= 'offline' then redis.call('SET', KEYS[3], document_json(), 'PX', left) end
end
