-- One operation on the bucket of each key, in their order and all at one
-- reading of the server's clock. step.Apply is the same in Go, bit for bit.
-- ARGV[1] is when it was sent, at the earliest, and then for each key the kind, in a
-- byte, and when the operation is too late; five numbers where 8 is added to the kind,
-- otherwise they are those of the operation before; and three more where 4 is added.
-- The reply is { results, i, error, … }: granted and level of each, then the time, and
-- the operations that failed. All numbers are float64, but for the byte, and integers
-- below 2^53. Calls cost more here than arithmetic, and each number or byte that is
-- packed or unpacked counts: the leaky bucket, which most limits are, calls for nothing
-- but to read and to write. The other algorithms are functions, which script.go inserts
-- for WINDOW_LUA and LOG_LUA, made when the first is called.
local MAX, SAFE = 4503599627370496, 9007199254740991 -- 2^52, bucket.MaxPortable; 2^53 - 1
local PEEK, REFUND, RESET = 1, 2, 3 -- bucket.Kind; 0 is to take
local PLAIN, QUIET, FIXED, SLIDING, LOG = 1, 2, 3, 4, 5 -- versions of what is stored; the first two of leaky buckets
local FIXED_WINDOW, SLIDING_WINDOW, SLIDING_LOG, COUNT_DENIED = 1048578, 1048579, 1048580, 1048576 -- in place of ticks per µs; the last is added to one
local LATE, CORRUPT, OTHER = 'LATE not carried out', 'CORRUPT not a bucket', true
local down, call, pack, unpack_numbers = math.floor, redis.pcall, struct.pack, struct.unpack
local window, log

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local keys = KEYS
-- One call for all: a call costs as much as the rest of a denial. MGET takes
-- what is no string for nothing; that is found out where it is to be written.
local values = call('MGET', unpack(keys))
if values.err then
  return values
end

local results, reply, written = {}, { '' }, {}
local num, unit, limit, cost, count -- of the latest operation
local stamp -- now and unit, as stored
local numbers = ARGV[1]
local sent, at = unpack_numbers('<d', numbers)
local behind = now < sent -- the clock has stepped back: nobody can tell what is late
for i = 1, #keys do
  local kind, due
  kind, due, at = unpack_numbers('<Bd', numbers, at)
  if kind >= 8 then
    kind, stamp = kind - 8, nil
    num, unit, limit, cost, count, at = unpack_numbers('<ddddd', numbers, at)
  end
  local amends, floor, back, date = kind > PEEK, 0, 0, 0 -- of windows date is a window
  if kind > RESET then
    kind = kind - 4
    floor, back, date, at = unpack_numbers('<ddd', numbers, at)
  end
  local key = keys[i]
  local value = written[key] -- the key may have come before
  if value == nil then
    value = values[i]
  end
  -- new is what to store and lasts for how many ms it is more than nothing. A
  -- failure of OTHER is a value that is none of this algorithm.
  local granted, level, new, lasts, failure = 0, 0, nil, 0, nil

  if now > due or behind and due < SAFE then
    failure = LATE
  elseif num == SLIDING_LOG then
    log = log or LOG_LUA
    granted, level, new, lasts, failure = log(value, kind, unit, limit, cost, count, floor, back, date)
  elseif num >= FIXED_WINDOW then
    window = window or WINDOW_LUA
    granted, level, new, lasts, failure = window(num, value, kind, unit, limit, cost, count, floor, back, date)
  else
    local quiet, write = 0, false
    if value and kind ~= RESET then
      local size, version, l, last, u, q = #value, 0, 0, 0, 0, 0
      if size == 25 then
        version, l, last, u = unpack_numbers('<Bddd', value)
      elseif size == 33 then
        version, l, last, u, q = unpack_numbers('<Bdddd', value)
      end
      if not (version == PLAIN and size == 25 or version == QUIET and size == 33) then
        failure = OTHER
      elseif l >= 0 and l <= MAX and l % 1 == 0 and last >= 0 and last <= SAFE and last % 1 == 0
        and u >= 1 and u <= SAFE and u % 1 == 0 and q >= 0 and q <= SAFE and q % 1 == 0 then
        level = l
        if q > now then
          quiet = math.min(q, now + 2 * down(limit / num) + 2, SAFE) -- the clock may have stepped back
        end
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
      else
        failure = CORRUPT
      end
    end

    if amends then
      -- What is given back first: the floor knows of it. But what others gave
      -- back it does not, so that it counts only when all from before has leaked.
      local heard = quiet == 0
      if kind == REFUND then
        back = cost
      end
      if back > 0 and level > 0 or kind == RESET then
        level = back < level and kind ~= RESET and level - back or 0
        quiet, write = math.min(now + 2 * down(limit / num) + 2, SAFE), true
      end
      if floor > level and heard and date > 0 and now >= date and kind ~= RESET then
        local leak = (now - date) * num
        if floor - leak > level then
          level, write = floor - leak, true
        end
      end
    end

    if kind <= PEEK then
      if level <= limit then
        local room = limit - level
        granted = count
        if cost * count > room then -- exact below 2^53; beyond, more than any room
          granted = (room - room % cost) / cost
        end
      end
      if kind == PEEK then
        write = false
      elseif granted > 0 and cost > 0 then
        level, write = level + granted * cost, true
      end
    end

    if write then
      lasts = level / (num * 1000)
      stamp = stamp or pack('<dd', now, unit)
      if quiet > now then
        lasts = math.max(lasts, (quiet - now) / 1000)
        new = pack('<Bd', QUIET, level) .. stamp .. pack('<d', quiet)
      else
        new = pack('<Bd', PLAIN, level) .. stamp
      end
    end
  end

  if failure == OTHER then -- another algorithm's counts as nothing
    local size, version = #value, string.byte(value)
    local known = version == PLAIN and size == 25 or (version == QUIET or version == FIXED) and size == 33
      or version == SLIDING and size == 41 or version == LOG and size % 8 == 1 and size > 1
    failure = not known and CORRUPT or nil
  end
  if failure then
    granted = 0
  elseif new then
    -- One ms to round up, another since expiry counts whole ones.
    local ttl = string.format('%d', lasts - lasts % 1 + 2) -- Redis would take longer than that for a number
    local done
    if value or kind == RESET then
      done = call('SET', key, new, 'PX', ttl)
    else
      done = call('SET', key, new, 'PX', ttl, 'NX')
    end
    failure = not done and 'WRONGTYPE not a string' or done.err
  end
  if failure then
    reply[#reply + 1] = i
    reply[#reply + 1] = failure
  elseif new then
    written[key] = new
  end
  results[2 * i - 1], results[2 * i] = granted, level
end
results[#results + 1] = now
reply[1] = pack('<' .. string.rep('d', #results), unpack(results))
return reply
