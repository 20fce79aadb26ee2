
-- Store it until it has certainly drained: one ms to round up, another since
-- expiry counts whole ones. tostring() would keep 14 digits only.
if write then
  local r
  if level > 0 then
    r = call('SET', KEYS[1], string.format('%.0f:%.0f:%.0f', level, now, unit),
      'PX', down(level / (num * 1000)) + 2)
  else
    r = call('DEL', KEYS[1])
  end
  if type(r) == 'table' and r.err then
    return r
  end
end
return { granted, level, now }
