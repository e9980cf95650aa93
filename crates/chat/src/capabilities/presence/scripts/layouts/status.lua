-- Layout `status`: one string. `offline` only if a user or another service set it; a heartbeat does not renew it. The
-- key is removed only while it is the one that Parlor wrote last.
-- KEYS[3] user:status:{user}
local status_key = KEYS[3]

function external_lease()
  return foreign_lease(previous_deadline)
end

function adopt_external_status()
  if not counts_external then return end
  local value = redis.call('GET', status_key)
  if value == 'offline' then
    set_explicit_status('offline')
  elseif value == 'online' and fields.x == 'offline' then
    set_explicit_status(nil)
  end
end

-- Lets the own `online` end at a time, at the latest with the lease of another service.
local function write_online(deadline)
  local lease = foreign_lease(previous_deadline)
  local ends = math.max(lease, deadline)
  if ends > now then
    redis.call('SET', status_key, 'online', 'PX', ends - now)
    if lease > 0 then
      redis.call('HSET', state_key, 'lease', format_integer(lease))
    else
      -- An `offline` since then has ended the lease of the other service.
      redis.call('HDEL', state_key, 'lease')
    end
  else
    redis.call('DEL', status_key)
  end
end

function write_layout(view)
  local value = redis.call('GET', status_key)
  if request.hide then
    redis.call('SET', status_key, 'offline', 'PX', offline_ttl)
  elseif fields.x == 'offline' then
    return
  elseif view.is_shown then
    local is_wanted = request.connect or request.show
    -- An `offline` that this state does not explain is another service's.
    if value == 'offline' and not is_wanted and not request.was_hidden then return end
    if is_wanted or value == 'online' or view.changed or next(added_ids) then write_online(view.own_until) end
  elseif value == 'online' and previous_deadline > 0 then
    write_online(0)
  elseif value == 'offline' and request.was_hidden then
    redis.call('DEL', status_key)
  end
end
