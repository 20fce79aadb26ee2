-- The level of KEYS[1] in ticks at the server's time. ARGV[1] is six float64,
-- the value is "level:last:unit": ticks when it was written, µs when that was,
-- ticks of a unit then. All are integers below 2^53, and memstore.Step is the
-- same in Go, bit for bit. No functions and few globals: they cost more here
-- than the arithmetic.
local num, unit, limit, cost, count, floor = struct.unpack('<dddddd', ARGV[1])
local MAX = 4503599627370496 -- 2^52, bucket.MaxPortable
local down, call = math.floor, redis.pcall

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local level, write = 0, false
local value = call('GET', KEYS[1])
if value then
  if type(value) == 'table' then
    return value -- WRONGTYPE
  end
  local l, last, u = string.match(value, '^(%d+):(%d+):(%d+)$')
  l, last, u = tonumber(l), tonumber(last), tonumber(u)
  if not l or l > MAX or last > 9007199254740991 or u > 9007199254740991 or u == 0 then
    return redis.error_reply('CORRUPT not a bucket')
  end
  level = l
  if level > 0 then
    if u ~= unit then
      level = math.min(down(level / u * unit), MAX) -- the rate has changed
    end
    if now < last then
      write = true -- the clock stepped back: no time has passed, rebase
    else
      local leak = (now - last) * num -- exact below 2^53; beyond, more than any level
      level = leak < level and level - leak or 0
    end
  end
end
if floor > level then
  level, write = floor, true
end
