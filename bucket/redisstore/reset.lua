-- reset: forget KEYS[1], whatever it holds.
local clock = redis.call('TIME')
local r = redis.pcall('DEL', KEYS[1])
if type(r) == 'table' and r.err then
  return r
end
return { 0, 0, clock[1] * 1000000 + clock[2] }
