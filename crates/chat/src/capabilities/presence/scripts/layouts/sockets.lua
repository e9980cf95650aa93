-- Layout `sockets`: a flag and the set of live sockets, both without TTL. The set is kept while the user is invisible.
-- Members of other services stay, and the flag is `false` only if the set has none.
-- KEYS[3] user:{user}:online
-- KEYS[4] user:{user}:sockets
local flag_key, set_key = KEYS[3], KEYS[4]
local had_devices = next(devices) ~= nil

-- All users share the default device `api`, so a device without a socket is named with its user.
local function member_name(id, device)
  return device.boot_id == 'api' and id .. '~' .. user or id
end

local function member_names(entries)
  local names = {}
  for id, device in pairs(entries) do names[#names + 1] = member_name(id, device) end
  return names
end

local function has_foreign_member()
  local own = {}
  for _, name in ipairs(member_names(devices)) do own[name] = true end
  for _, name in ipairs(member_names(removed)) do own[name] = true end
  for _, name in ipairs(redis.call('SMEMBERS', set_key)) do
    if not own[name] then return true end
  end
  return false
end

function external_lease()
  if redis.call('GET', flag_key) ~= 'true' then return 0 end
  -- Without own devices the flag is another service's. Its sockets have no lease: they are checked again later.
  return (not had_devices or has_foreign_member()) and now + ttl or 0
end

-- Returns true if another service has set the flag to `false`: it has published the change.
function write_layout(view)
  local gone, flag = member_names(removed), redis.call('GET', flag_key)
  if #gone > 0 then redis.call('SREM', set_key, unpack(gone)) end
  local is_missing = not flag and view.is_shown
  local new = {}
  for id in pairs(devices) do
    if added_ids[id] or is_missing then new[#new + 1] = member_name(id, devices[id]) end
  end
  if #new > 0 then
    redis.call('SADD', set_key, unpack(new))
    redis.call('PERSIST', set_key)
  end
  if view.is_shown then
    if #new > 0 or view.changed then redis.call('SET', flag_key, 'true') end
  elseif flag == 'false' then
    return true
  elseif (view.changed or #new > 0) and not has_foreign_member() then
    redis.call('SET', flag_key, 'false')
  end
end

-- Lets the keys of a user who is online expire, unless another service has sockets in the set.
local function limit_keys(left)
  if redis.call('GET', flag_key) ~= 'true' or redis.call('PTTL', flag_key) ~= -1 or not had_devices then return 0 end
  if has_foreign_member() then
    redis.call('SREM', set_key, unpack(member_names(devices)))
    return 0
  end
  redis.call('PEXPIRE', flag_key, left)
  redis.call('PEXPIRE', set_key, left)
  return 1
end
