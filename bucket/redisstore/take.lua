
-- take: charge as many of count requests of cost as fit.
local granted = fits()
local charge = granted * cost
level = level + charge
if moved or charge > 0 then
  local err = store()
  if err then
    return err
  end
end
return { granted, level, now }
