-- Layout `document`: a JSON document while the user is visible; `lastSeen` is the last connect or heartbeat. The
-- document is removed only while it is the one that Parlor wrote last.
-- KEYS[3] presence:{user}
local document_key = KEYS[3]

local function is_own_document()
  local document, own = redis.call('GET', document_key), redis.call('HGET', state_key, 'doc')
  return document and own and document == document_json(own)
end

function external_lease()
  local lease = foreign_lease()
  return lease or now + ttl
end

-- Lets the own document end, at the latest with the lease of another service whose document it replaced.
local function end_document(deadline)
  if not is_own_document() then return end
  local lease = math.max(foreign_lease(), deadline)
  if lease > now then
    redis.call('PEXPIRE', document_key, lease - now)
  else
    redis.call('DEL', document_key)
  end
end

function write_layout(view)
  if not view.is_shown then
    end_document(0)
  elseif view.appeared or next(added_ids) or next(refreshed_ids) then
    write_document(view.left)
  else
    end_document(view.own_until)
  end
end
