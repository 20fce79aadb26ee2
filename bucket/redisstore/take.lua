
-- take: charge what fits.
local charge = granted * cost
if charge > 0 then
  level, write = level + charge, true
end
