-- Common head of take, peek and refund: the level of KEYS[1] in ticks at the
-- server's time. The value is "level:last:unit": ticks when it was written,
-- µs when that was, ticks of a unit then. All numbers are integers below 2^53.
-- The same in Go, bit for bit: memstore.Step.
local num, unit, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local cost, count, floor = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local MAX = 4503599627370496 -- 2^52, bucket.MaxPortable

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local level, moved = 0, false
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
  return value -- WRONGTYPE
end
if value then
  local l, last, u = string.match(value, '^(%d+):(%d+):(%d+)$')
  l, last, u = tonumber(l), tonumber(last), tonumber(u)
  if not l or l > MAX or last > 9007199254740991 or u > 9007199254740991 or u == 0 then
    return redis.error_reply('CORRUPT not a bucket')
  end
  level = l
  if level > 0 then
    if u ~= unit then
      level = math.min(math.floor(level / u * unit), MAX)
    end
    if now < last then
      moved = true -- the clock stepped back: no time has passed, rebase
    else
      local dt = math.min(now - last, math.floor(level / num) + 1)
      level = level - math.min(level, dt * num)
    end
  end
end
if floor > level then
  level, moved = floor, true
end

local function store()
  local r
  if level > 0 then
    -- tostring() keeps 14 digits only
    r = redis.pcall('SET', KEYS[1], string.format('%.0f:%.0f:%.0f', level, now, unit),
      'PX', string.format('%.0f', math.floor(level / (num * 1000)) + 2))
  else
    r = redis.pcall('DEL', KEYS[1])
  end
  return type(r) == 'table' and r.err and r
end

local function fits()
  if level > limit then
    return 0
  elseif cost == 0 then
    return count
  end
  return math.min(count, math.floor((limit - level) / cost))
end
