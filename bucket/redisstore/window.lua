-- One operation on a window: of operate.lua, which has the names that are not
-- defined here. It is a function of which algorithm it is, what is stored, and the
-- numbers of the operation, date being a window, and returns granted, level, what to
-- store, for how many ms, and the failure. Of a fixed window previous is 0.
function(num, value, kind, unit, limit, cost, count, floor, back, date)
  local COUNTS, STEPS = 67108864, 62500 -- 2^26, see bucket.Pack; bucket.SlidingSteps
  local count_denied = num >= FIXED_WINDOW + COUNT_DENIED
  local sliding = (count_denied and num - COUNT_DENIED or num) == SLIDING_WINDOW
  local past = now % unit
  local now_in = (now - past) / unit -- the window of now; the division is exact
  local current, previous, quiet, write, failure = 0, 0, 0, false, nil

  if value and kind ~= RESET then
    local size, version, c, w, u, q, p = #value, 0, 0, 0, 0, 0, 0
    if sliding and size == 41 then
      version, c, w, u, q, p = unpack_numbers('<Bddddd', value)
    elseif not sliding and size == 33 then
      version, c, w, u, q = unpack_numbers('<Bdddd', value)
    end
    local most = sliding and COUNTS - 1 or MAX
    if version ~= (sliding and SLIDING or FIXED) then
      failure = OTHER
    elseif not (c >= 0 and c <= most and c % 1 == 0 and p >= 0 and p <= most and p % 1 == 0 and w >= 0 and w <= SAFE and w % 1 == 0
      and u >= 1 and u <= SAFE and u % 1 == 0 and q >= 0 and q <= SAFE and q % 1 == 0) then
      failure = CORRUPT
    elseif u == unit and w >= now_in then
      current, previous = c, p
      write = w > now_in -- the clock stepped back: no time has passed
      if q > 0 and q <= w and (sliding or q == w) then
        quiet = math.max(q - (w - now_in), 0)
      end
    elseif u == unit and sliding and w + 1 == now_in then
      previous = c
      if q <= w then
        quiet = q
      end
    end
    if quiet + 1 < now_in then
      quiet = 0
    end
  end

  if kind == RESET then
    quiet, write = now_in, true
  elseif floor > 0 or back > 0 or kind == REFUND then
    -- In the order of operate.lua, each in the window that it names.
    local heard, c, p = quiet == 0, current, previous
    if kind == REFUND then
      back = cost
    end
    if date == 0 or date == now_in then
      current, back = math.max(current - back, 0), math.max(back - current, 0)
      previous = math.max(previous - back, 0)
    elseif date + 1 == now_in then
      previous = math.max(previous - back, 0)
    end
    if current < c or previous < p then
      quiet, write = now_in, true
    end
    if floor > 0 and heard and date > 0 then
      local fc, fp = floor, 0
      if sliding then
        fc, fp = floor % COUNTS, down(floor / COUNTS)
      end
      if date ~= now_in then
        fc, fp = 0, sliding and date + 1 == now_in and fc or 0
      end
      local both = current + previous -- see bucket.JoinCounts
      if fc > current or fc + fp > both then
        current, write = math.max(current, fc), true
        previous = math.max(both, fc + fp) - current
      end
    end
  end

  local granted = 0
  if kind <= PEEK then
    local level = current
    if sliding then
      local steps = down(past / (unit / STEPS))
      level = current + down((previous * (STEPS - steps) + STEPS - 1) / STEPS)
    end
    if level <= limit then
      granted = cost > 0 and math.min(count, down((limit - level) / cost)) or count
    end
    if kind == PEEK then
      write = false
    else
      local before = current
      current = current + granted * cost
      if count_denied and granted < count and current < limit then
        -- Of a fixed window one of them does not fit in what is left.
        current = sliding and math.min(limit, current + (count - granted) * cost) or limit
      end
      write = write or current > before
    end
  end

  local reply = sliding and previous * COUNTS + current or current
  if not write then
    return granted, reply, nil, 0, failure
  end
  local lasts = unit - past
  if not sliding then
    return granted, reply, pack('<Bdddd', FIXED, current, now_in, unit, quiet), lasts / 1000, failure
  end
  if current > 0 or quiet == now_in then
    lasts = lasts + unit
  end
  return granted, reply, pack('<Bddddd', SLIDING, current, now_in, unit, quiet, previous), lasts / 1000, failure
end
