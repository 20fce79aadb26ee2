-- Asks fastlimit about a request, for apache.conf. A thread of Apache waits for the
-- answer, on a connection of its own.

local socket = require "socket" -- the package lua-socket

local address, port = "127.0.0.1", 8080
local timeout_ms = 100

-- Whether requests are admitted while fastlimit does not answer in time, or with
-- a 5xx. Otherwise they get 503.
local fail_open = true

-- What rules use beside address, method, host and path: {"X-Api-Key"} for key:
-- header:X-Api-Key, {"Cookie"} for a cookie. fastlimit gets nothing else of the
-- request, so a long cookie or an odd header cannot make it refuse to decide.
local passed = {}

-- What clients are told.
local told = { "Retry-After", "RateLimit", "RateLimit-Policy", "Cache-Control" }

-- question is the request to fastlimit. Apache has parsed what is in it: no value
-- has a line break.
local function question(r)
  local host = r.headers_in["Host"] -- HTTP/1.0 may have none
  local lines = {
    host and "GET / HTTP/1.1\r\nHost: " .. host or "GET / HTTP/1.0",
    "X-Forwarded-For: " .. r.useragent_ip,
    "X-Original-Method: " .. r.method,
    "X-Original-URI: " .. r.unparsed_uri,
    "Connection: close",
  }
  for _, name in ipairs(passed) do
    lines[#lines + 1] = r.headers_in[name] and name .. ": " .. r.headers_in[name]
  end
  return table.concat(lines, "\r\n") .. "\r\n\r\n"
end

-- ask returns the status and the fields of the answer, nil if there is none.
local function ask(r)
  local tcp = socket.tcp()
  local ends = socket.gettime() + timeout_ms / 1000
  local function remaining()
    return math.max(ends - socket.gettime(), 0)
  end
  local function receive()
    tcp:settimeout(remaining())
    return tcp:receive("*l")
  end
  tcp:settimeout(remaining())
  local status, fields = nil, {}
  if tcp:connect(address, port) and tcp:send(question(r)) then
    local line = receive()
    status = line and tonumber(line:match("^HTTP/1%.%d (%d%d%d) "))
    while status and line ~= "" do
      line = receive()
      if not line then
        status = nil -- cut off
      else
        local name, value = line:match("^([^:]+):%s*(.-)%s*$")
        if name then
          fields[name:lower()] = value
        end
      end
    end
  end
  tcp:close()
  return status, fields
end

function decide(r)
  if not r.is_initial_req then
    return apache2.DECLINED -- an internal redirect of a request that was decided
  end
  local status, fields = ask(r)
  if not status or status >= 500 then
    return fail_open and apache2.DECLINED or 503
  elseif status >= 200 and status < 300 then
    return apache2.DECLINED -- for the other checks of Apache
  elseif fields["retry-after"] then
    for _, name in ipairs(told) do
      r.err_headers_out[name] = fields[name:lower()] or ""
    end
    return 429
  elseif status == 403 then
    return 403 -- on the deny list
  end
  return 400 -- malformed: never admitted
end
