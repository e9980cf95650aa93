-- Layout `document`: a JSON document while the user is visible; `lastSeen` is the last connect or heartbeat.
-- KEYS[3] presence:{user}
local document_key = KEYS[3]

function project(view)
  if view.visible == 'offline' then
    redis.call('DEL', document_key)
  elseif view.crossed or next(added) or next(beaten) then
    redis.call('SET', document_key, document(), 'PX', view.left)
  else
    redis.call('PEXPIRE', document_key, view.left)
  end
end
