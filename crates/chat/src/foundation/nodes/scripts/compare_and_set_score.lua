-- Changes the score of a node in the index if the node still has the expected score. Of several concurrent callers one
-- succeeds.
-- KEYS[1] parlor:nodes
-- ARGV[1] node id
-- ARGV[2] expected score
-- ARGV[3] new score, or '' to remove the entry
-- Reply: 1 if the score was changed
local index, node, expected_score, score = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]

local found = redis.call('ZSCORE', index, node)
if not found or tonumber(found) ~= expected_score then return 0 end
if score == '' then
  redis.call('ZREM', index, node)
else
  redis.call('ZADD', index, score, node)
end
return 1
