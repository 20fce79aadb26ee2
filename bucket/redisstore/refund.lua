
-- refund: take cost off the level, once; a bucket never drops below empty.
local granted = 0
write = write or level > 0 or value
level = cost < level and level - cost or 0
