-- A page of the newest messages.
-- KEYS[1] parlor:top:{conv}
-- KEYS[2] the recent list
-- ARGV[1] epoch
-- ARGV[2] messages before this seq, or ''
-- ARGV[3] messages after this seq, or ''
-- ARGV[4] how many at most
-- ARGV[5] the seq up to which nothing is shown
-- Reply: { } if the top is unknown, else { top, rev, seq of the newest that belongs to the page, seq of its oldest, the entries
-- that are there, newest first }
local top_key, list = KEYS[1], KEYS[2]
local epoch, before, after, limit, hidden = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local top, held, rev = string.match(redis.call('GET', top_key) or '', '^(%d+)|(%d+)|(%d+)$')
if held ~= epoch then return {} end
top = tonumber(top)
local newest, oldest
if after then
  oldest = math.max(after, hidden) + 1
  newest = math.min(top, oldest + limit - 1)
else
  newest = math.min(top, (before or top + 1) - 1)
  oldest = math.max(newest - limit + 1, hidden + 1)
end
local entries = {}
if oldest <= newest then entries = redis.pcall('LRANGE', list, top - newest, top - oldest) end
-- Somebody else's.
if entries.err then entries = {} end
local function text(number) return string.format('%.0f', number) end
return { text(top), rev, text(newest), text(oldest), entries }
