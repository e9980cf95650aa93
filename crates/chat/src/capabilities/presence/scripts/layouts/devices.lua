-- Layout `devices`: a hash of the live devices while the user is visible. Fields of other services stay.
-- KEYS[3] presence:user:{user}
local hash_key = KEYS[3]

local function has_foreign_field()
  for _, id in ipairs(redis.call('HKEYS', hash_key)) do
    if not devices[id] and not removed[id] then return true end
  end
  return false
end

function external_lease()
  if not has_foreign_field() then return 0 end
  local remaining = redis.call('PTTL', hash_key)
  return now + (remaining < 0 and ttl or remaining)
end

local function remove_fields(is_hidden)
  local ids = {}
  for id in pairs(removed) do ids[#ids + 1] = id end
  if is_hidden then
    for id in pairs(devices) do ids[#ids + 1] = id end
  end
  if #ids > 0 then redis.call('HDEL', hash_key, unpack(ids)) end
end

function write_layout(view)
  remove_fields(not view.is_shown and view.changed)
  if not view.is_shown then return end
  local entries = {}
  local function add(id, refreshed)
    entries[#entries + 1] = id
    entries[#entries + 1] = device_json(devices[id], view.status, refreshed)
  end
  for id in pairs(devices) do
    if added_ids[id] or refreshed_ids[id] then
      add(id, now_iso)
    elseif view.changed then
      local old = redis.call('HGET', hash_key, id)
      add(id, old and string.match(old, '"refreshedAt":"([^"]*)"') or now_iso)
    end
  end
  local is_shared = has_foreign_field()
  if #entries > 0 then redis.call('HSET', hash_key, unpack(entries)) end
  if is_shared then extend_shared_ttl(view.left) else redis.call('PEXPIRE', hash_key, view.left) end
end
