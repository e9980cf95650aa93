-- Lets the keys of the layout `sockets` expire, because the last node stops and no node will remove the sockets.
-- ARGV[10] TTL, ms
-- Reply: 1 if the keys of a user who is online were limited
return try_layout(limit_keys, ARGV[10]) or 0
