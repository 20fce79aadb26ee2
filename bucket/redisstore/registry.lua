-- A registry in one hash (bucket/registry): a field for each record, "=" and its name, which
-- holds version, end in µs and value; "!epoch", when the hash was made; "!version", of the
-- latest change. Time is Redis' own.
local key, op = KEYS[1], ARGV[1]
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]

local function text(n) return string.format('%.0f', n) end

local function parse(s)
  local version, ends, value = string.match(s, '^(%d+) (%d+) (.*)$')
  return tonumber(version), tonumber(ends), value
end

-- number is that of a field, 0 if it is none: anybody may have written it.
local function number(field)
  local n = tonumber(redis.call('HGET', key, field) or 0) or 0
  if n >= 0 and n < 2 ^ 52 then return n end
  return 0
end

-- advance returns the version of the next change: above all before, and not below the
-- time, so that a hash that was lost goes on above what it had.
local function advance()
  local v = math.max(number('!version') + 1, now)
  if number('!epoch') == 0 then redis.call('HSET', key, '!epoch', text(now), '!pruned', 0) end
  redis.call('HSET', key, '!version', text(v))
  return v
end

local function set(name, version, ends, value)
  redis.call('HSET', key, '=' .. name, text(version) .. ' ' .. text(ends) .. ' ' .. value)
  local ttl = math.ceil((ends - now) / 1000) + 60000
  if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, text(ttl)) end
end

-- room reports whether there is room for one more, of most, and makes some once a second
-- at most.
local function room(name, most)
  if redis.call('HEXISTS', key, '=' .. name) == 1 or redis.call('HLEN', key) < most then return true end
  local last = number('!pruned')
  if last <= now and now - last < 1000000 then return false end
  redis.call('HSET', key, '!pruned', text(now))
  for _, f in ipairs(redis.call('HKEYS', key)) do
    if string.sub(f, 1, 1) == '=' then
      local _, ends, value = parse(redis.call('HGET', key, f))
      if not ends or ends <= now or value == '' then redis.call('HDEL', key, f) end
    end
  end
  return redis.call('HLEN', key) < most
end

if op == 'put' then -- name, value, life, most
  if not room(ARGV[2], tonumber(ARGV[5])) then return -1 end
  set(ARGV[2], advance(), now + tonumber(ARGV[4]), ARGV[3])
  return 1
end

if op == 'mark' then return {text(number('!epoch')), text(number('!version'))} end

if op == 'delete' then -- name, how long that is remembered, most
  local existed, grave = 0, now + tonumber(ARGV[3])
  local s = redis.call('HGET', key, '=' .. ARGV[2])
  if s then
    local _, ends, value = parse(s)
    if ends and ends > now then
      if value == '' then return 0 end
      existed, grave = 1, math.min(ends, grave)
    end
  elseif not room(ARGV[2], tonumber(ARGV[4])) then
    return 0
  end
  set(ARGV[2], advance(), grave, '')
  return existed
end

if op == 'restore' then -- most, then name, value, version and what is left of each
  local n = 0
  for i = 3, #ARGV, 4 do
    local version = tonumber(ARGV[i + 2])
    local s = redis.call('HGET', key, '=' .. ARGV[i])
    if (not s or (parse(s) or 0) < version) and room(ARGV[i], tonumber(ARGV[2])) then
      advance()
      set(ARGV[i], version, now + tonumber(ARGV[i + 3]), ARGV[i + 1])
      n = n + 1
    end
  end
  return n
end

-- page: cursor, count, and the most bytes of a name and a value
local r = redis.call('HSCAN', key, ARGV[2], 'COUNT', ARGV[3])
local out, skipped = {r[1], 0}, 0
for i = 1, #r[2], 2 do
  local f, s = r[2][i], r[2][i + 1]
  if string.sub(f, 1, 1) == '=' then
    local version, ends, value
    if #f - 1 <= tonumber(ARGV[4]) and #s <= tonumber(ARGV[5]) + 40 then version, ends, value = parse(s) end
    if not ends or ends > now + 4e13 or version >= 2 ^ 53 then
      skipped = skipped + 1
    elseif ends <= now then
      redis.call('HDEL', key, f)
    else
      out[#out + 1], out[#out + 2], out[#out + 3], out[#out + 4] = string.sub(f, 2), value, text(version), text(ends - now)
    end
  elseif f ~= '!epoch' and f ~= '!version' and f ~= '!pruned' then
    skipped = skipped + 1
  end
end
out[2] = skipped
return out
