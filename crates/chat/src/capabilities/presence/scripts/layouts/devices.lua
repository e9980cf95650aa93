-- Layout `devices`: a hash of the live devices while the user is visible.
-- KEYS[3] presence:user:{user}
local hash_key = KEYS[3]

function write_layout(view)
  if view.visible == 'offline' then
    redis.call('DEL', hash_key)
    return
  end
  local entries = {}
  local function add(id, refreshed)
    entries[#entries + 1] = id
    entries[#entries + 1] = device_json(devices[id], view.visible, refreshed)
  end
  if view.changed then
    for id in pairs(devices) do
      local old = redis.call('HGET', hash_key, id)
      local refreshed = old and string.match(old, '"refreshedAt":"([^"]*)"')
      add(id, not refreshed_ids[id] and not added_ids[id] and refreshed or now_iso)
    end
    redis.call('DEL', hash_key)
  else
    if #removed_ids > 0 then redis.call('HDEL', hash_key, unpack(removed_ids)) end
    for id in pairs(added_ids) do add(id, now_iso) end
    for id in pairs(refreshed_ids) do add(id, now_iso) end
  end
  if #entries > 0 then redis.call('HSET', hash_key, unpack(entries)) end
  redis.call('PEXPIRE', hash_key, view.left)
end
