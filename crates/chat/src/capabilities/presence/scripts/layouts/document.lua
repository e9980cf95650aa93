-- Layout `document`: a JSON document while the user is visible; `lastSeen` is the last connect or heartbeat.
-- KEYS[3] presence:{user}
local document_key = KEYS[3]

function write_layout(view)
  if view.visible == 'offline' then
    redis.call('DEL', document_key)
  elseif view.crossed_offline or next(added_ids) or next(refreshed_ids) then
    redis.call('SET', document_key, document_json(), 'PX', view.left)
  else
    redis.call('PEXPIRE', document_key, view.left)
  end
end
