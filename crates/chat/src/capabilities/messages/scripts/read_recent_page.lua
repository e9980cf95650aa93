-- Reads a page from the recent list.
-- KEYS[1] watermark parlor:top:{conv}
-- KEYS[2] recent list
-- ARGV[1] store epoch
-- ARGV[2] return messages before this seq; '' for no bound
-- ARGV[3] return messages after this seq; '' for no bound
-- ARGV[4] maximum number of messages
-- ARGV[5] last seq that the user may not see
-- Reply: { } if the watermark is cold, else { applied seq, rev of the last published change, seq of the newest message
-- of the page, seq of its oldest message, the entries that exist, newest first }
local top_key, list = KEYS[1], KEYS[2]
local epoch, before, after, limit, hidden = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local top, stored_epoch, rev = string.match(redis.call('GET', top_key) or '', '^(%d+)|(%d+)|(%d+)$')
if stored_epoch ~= epoch then return {} end
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
-- The key has a foreign type: it contains no entries.
if entries.err then entries = {} end
local function text(number) return string.format('%.0f', number) end
return { text(top), rev, text(newest), text(oldest), entries }
