-- One operation on the bucket of each key, in their order and all at one
-- reading of the server's clock. step.Apply is the same in Go, bit for bit.
-- ARGV[1] is float64s: when it was sent, at the earliest, then seven for each
-- key, the operation and its numbers, and three more where 4 is added to the
-- kind. The reply is { results, i, error, … }: granted and level of each, then the time,
-- as float64, and the operations that failed. All numbers are integers below
-- 2^53. No functions and few globals: calls cost more here than arithmetic.
local MAX, SAFE = 4503599627370496, 9007199254740991 -- 2^52, bucket.MaxPortable; 2^53 - 1
local PEEK, REFUND, RESET = 1, 2, 3 -- bucket.Kind; 0 is to take
local PLAIN, QUIET, WINDOW = 1, 2, 3 -- versions of what is stored; of windows the last
local FIXED, COUNT_DENIED = 1048578, 2097154 -- in place of ticks per µs; the latter is FIXED too
local LATE = { err = 'LATE not carried out' }
local down, call, pack, unpack_numbers = math.floor, redis.pcall, struct.pack, struct.unpack

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
-- One call for all: a call costs as much as the rest of a denial. MGET takes
-- what is no string for nothing; that is found out where it is to be written.
local values = call('MGET', unpack(KEYS))
if values.err then
  return values
end

local results, reply, written = {}, { '' }, {}
local numbers = ARGV[1]
local sent, at = unpack_numbers('<d', numbers)
local behind = now < sent -- the clock has stepped back: nobody can tell what is late
for i = 1, #KEYS do
  local kind, num, unit, limit, cost, count, due
  kind, num, unit, limit, cost, count, due, at = unpack_numbers('<ddddddd', numbers, at)
  local amends, floor, back, date = kind > PEEK
  if amends then
    floor, back, date = 0, 0, 0
    if kind > RESET then
      kind = kind - 4
      floor, back, date, at = unpack_numbers('<ddd', numbers, at)
    end
  end
  local key = KEYS[i]
  local value = written[key] -- the key may have come before
  if value == nil then
    value = values[i]
  end
  local level, quiet, granted, write, failure, new = 0, 0, 0, false, nil, nil
  -- Of a window unit is its period, date and quiet are windows too, and window is
  -- the one that it is. The division is exact.
  local window = num >= FIXED and (now - now % unit) / unit

  if now > due or behind and due < SAFE then
    failure = LATE
  elseif value and kind ~= RESET then
    local version, l, last, u, size = 0, 0, 0, 0, #value
    if size == 25 then
      version, l, last, u = unpack_numbers('<Bddd', value)
    elseif size == 33 then
      local v, q
      v, l, last, u, q = unpack_numbers('<Bdddd', value)
      if (v == QUIET or v == WINDOW) and (q == 0 or q > 0 and q <= SAFE and q % 1 == 0) then
        version = v == WINDOW and WINDOW or PLAIN
        if window then
          quiet = q
        elseif q > now then
          quiet = math.min(q, now + 2 * down(limit / num) + 2, SAFE) -- the clock may have stepped back
        end
      end
    end
    if (version == PLAIN or version == WINDOW and size == 33) and l >= 0 and l <= MAX and l % 1 == 0
      and last >= 0 and last <= SAFE and last % 1 == 0 and u >= 1 and u <= SAFE and u % 1 == 0 then
      level = l
      if (version == WINDOW) ~= (window and true) then
        level, quiet = 0, 0 -- another algorithm's
      elseif window then
        if u ~= unit or last < window then
          level, quiet = 0, 0 -- another period's, or of a window that is over
        else
          quiet = quiet == last and quiet > 0 and window or 0
          write = last > window -- the clock stepped back: no time has passed
        end
      elseif level > 0 then
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
    else
      failure = { err = 'CORRUPT not a bucket' }
    end
  end

  if amends then
    -- What is given back first: the floor knows of it. But what others gave
    -- back it does not, so that it counts only when all from before has leaked.
    local heard = quiet == 0
    if kind == REFUND then
      back = cost
    end
    if window then
      if date > 0 and date ~= window then
        back = 0 -- charged in a window that is over
      end
      if back > 0 and level > 0 or kind == RESET then
        level = back < level and kind ~= RESET and level - back or 0
        quiet, write = window, true
      end
      if floor > level and heard and date == window and kind ~= RESET then
        level, write = floor, true
      end
    elseif back > 0 and level > 0 or kind == RESET then
      level = back < level and kind ~= RESET and level - back or 0
      quiet, write = math.min(now + 2 * down(limit / num) + 2, SAFE), true
    end
    if not window and floor > level and heard and date > 0 and now >= date and kind ~= RESET then
      local leak = (now - date) * num
      if floor - leak > level then
        level, write = floor - leak, true
      end
    end
  end

  if kind <= PEEK then
    if level <= limit then
      granted = count
      if cost > 0 then
        local room = down((limit - level) / cost)
        if room < count then
          granted = room
        end
      end
    end
    local charge = granted * cost
    if num >= COUNT_DENIED and granted < count then
      charge = level < limit and limit - level or 0 -- since one of them does not fit
    end
    if kind == PEEK then
      write = false
    elseif charge > 0 then
      level, write = level + charge, true
    end
  end

  if failure then
    granted = 0
  elseif write then
    -- Until nothing of it counts any more: one ms to round up, another since
    -- expiry counts whole ones.
    local ttl = down(level / (num * 1000)) + 2
    if window then
      ttl = down((unit - now % unit) / 1000) + 2
      new = pack('<Bdddd', WINDOW, level, window, unit, quiet)
    elseif quiet > now then
      ttl = math.max(ttl, down((quiet - now) / 1000) + 2)
      new = pack('<Bdddd', QUIET, level, now, unit, quiet)
    else
      new = pack('<Bddd', PLAIN, level, now, unit)
    end
    if value or kind == RESET then
      failure = call('SET', key, new, 'PX', ttl)
    else
      failure = call('SET', key, new, 'PX', ttl, 'NX') or { err = 'WRONGTYPE not a string' }
    end
  end
  if type(failure) == 'table' and failure.err then
    reply[#reply + 1] = i
    reply[#reply + 1] = failure.err
  elseif new ~= nil then
    written[key] = new
  end
  results[i] = pack('<dd', granted, level)
end
results[#KEYS + 1] = pack('<d', now)
reply[1] = table.concat(results)
return reply
