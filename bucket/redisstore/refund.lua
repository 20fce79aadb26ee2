
-- refund: take cost off the level once; a bucket never drops below empty.
local held = level > 0 or value
level = level - math.min(level, cost)
if moved or held then
  local err = store()
  if err then
    return err
  end
end
return { 0, level, now }
