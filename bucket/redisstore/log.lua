-- One operation on a sliding log: of operate.lua, as window.lua is. What is stored is
-- a version byte, until when floors are ignored, and the times of units, the oldest
-- first. It is never taken apart: the times that are looked at are read where they
-- are, and what stays is copied as a whole. So only those are known to be sound; they
-- are the only ones that count for anything. Redis hashes every string that a script
-- makes, all of it, which is what a long log costs: once where it is read, and twice
-- where it is written, or once if nothing goes but something comes.
function(value, kind, unit, limit, cost, count, floor, back, date)
  local quiet, write, failure, held = 0, false, nil, nil -- held is quiet as it is stored
  local times = '         ' -- where the times are: what is stored, or the same without a head
  local quiet_until = math.min(now + 2 * unit, SAFE)
  -- Those that count are the first to the last; number i is at byte 2 + 8i.
  local first, last = 1, 0

  if value and kind ~= RESET then
    local size, version, q = #value, 0, 0
    if size > 1 and size % 8 == 1 then
      version, q = unpack_numbers('<Bd', value)
    end
    if version ~= LOG then
      failure = OTHER
    elseif not (q >= 0 and q <= SAFE and q % 1 == 0) then
      return 0, 0, nil, 0, CORRUPT
    else
      times, held = value, q
      if q > now then
        quiet = math.min(q, quiet_until) -- the clock may have stepped back
      end
      last = (size - 9) / 8
      first = math.max(1, last - limit + 1)
      local newest = last > 0 and unpack_numbers('<d', times, 2 + 8 * last) or 0
      if not (newest >= 0 and newest <= SAFE and newest % 1 == 0) then
        return 0, 0, nil, 0, CORRUPT
      end
      if last > 0 and newest > now then
        -- The clock stepped back: no time has passed. All go back by as much.
        local back_then = {}
        for i = first, last do
          local t = unpack_numbers('<d', times, 2 + 8 * i)
          if not (t >= 0 and t <= newest and t % 1 == 0) then
            failure = CORRUPT
          end
          back_then[#back_then + 1] = pack('<d', math.max(0, t - (newest - now)))
        end
        times, held = string.sub(times, 1, 9) .. table.concat(back_then), nil
        first, last, newest, write = 1, #back_then, now, true
      end
      local beyond = last + 1 -- the first that counts is from first to beyond
      while first < beyond do
        local i = down((first + beyond) / 2)
        local t = unpack_numbers('<d', times, 2 + 8 * i)
        if not (t >= 0 and t <= newest and t % 1 == 0) then
          failure = CORRUPT
        end
        if now - t < unit then
          beyond = i
        else
          first = i + 1
        end
      end
    end
  end

  if kind == RESET then
    quiet, write = quiet_until, true
  elseif floor > 0 or back > 0 or kind == REFUND then
    local heard = quiet == 0
    if kind == REFUND then
      back = cost
    end
    if back > 0 and first <= last then
      last = math.max(last - back, first - 1)
      quiet, write = quiet_until, true
    end
    local from = math.max(0, date - (unit - unit % 2) / 2)
    if floor > 0 and heard and date > 0 and now >= date and now - from < unit then
      local i, beyond = first, last + 1 -- the first from then on is from i to beyond
      while i < beyond do
        local middle = down((i + beyond) / 2)
        local t = unpack_numbers('<d', times, 2 + 8 * middle)
        if not (t >= 0 and t <= now and t % 1 == 0) then
          failure = CORRUPT
        end
        if t >= from then
          beyond = middle
        else
          i = middle + 1
        end
      end
      local missing = floor - (last - i + 1)
      if missing > 0 then
        -- Older ones may be the same units: they move to from before any is added.
        local kept = math.max(first, i - missing) -- the first that does not stay as it is
        times = string.sub(times, 1, 1 + 8 * kept) .. string.rep(pack('<d', from), missing) .. string.sub(times, 2 + 8 * i, 9 + 8 * last)
        last, write = last + missing - (i - kept), true
      end
    end
  end

  local granted, units = 0, last - first + 1
  local charge = 0
  if kind <= PEEK then
    if units <= limit then
      granted = cost > 0 and math.min(count, down((limit - units) / cost)) or count
    end
    if kind == PEEK then
      write = false
    else
      charge = granted * cost
      write = write or charge > 0
    end
  end

  local oldest, latest = now, now
  if first <= last then
    oldest = unpack_numbers('<d', times, 2 + 8 * first)
    latest = charge == 0 and write and unpack_numbers('<d', times, 2 + 8 * last) or now
    if not (oldest >= 0 and oldest <= now and oldest % 1 == 0 and latest >= 0 and latest <= now and latest % 1 == 0) then
      failure = CORRUPT
    end
  end
  local level = units + charge
  if level >= limit then
    level = limit + unit - (now - oldest) -- and how long until one fits
  end
  if failure == CORRUPT or not write then
    return granted, level, nil, 0, failure
  end
  local lasts = units + charge > 0 and unit - (now - latest) or 0
  if quiet > now then
    lasts = math.max(lasts, quiet - now)
  else
    quiet = 0
  end
  local new = times
  if quiet ~= held or first > 1 or 9 + 8 * last < #times then
    new = pack('<Bd', LOG, quiet) .. string.sub(times, 2 + 8 * first, 9 + 8 * last)
  end
  if charge > 0 then
    new = new .. string.rep(pack('<d', now), charge)
  end
  return granted, level, new, lasts / 1000, failure
end
