-- Moves a node's entry from the score that was seen to another one: of many claimers one succeeds.
-- KEYS[1] parlor:nodes
-- ARGV[1] node
-- ARGV[2] the score seen
-- ARGV[3] the new score, or '' to remove the entry
-- Reply: 1 if it was moved
local index, node, seen, score = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]

local found = redis.call('ZSCORE', index, node)
if not found or tonumber(found) ~= seen then return 0 end
if score == '' then
  redis.call('ZREM', index, node)
else
  redis.call('ZADD', index, score, node)
end
return 1
