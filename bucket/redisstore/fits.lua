
-- How many of count requests fit.
local granted = 0
if level <= limit then
  granted = count
  if cost > 0 then
    local room = down((limit - level) / cost)
    if room < count then
      granted = room
    end
  end
end
