-- Asks fastlimit about a request, for haproxy.cfg:
--
--   http-request lua.fastlimit 127.0.0.1:8080 100ms
--
-- The arguments are the address of fastlimit and how long to wait for it. Sets
-- txn.fastlimit to what HAProxy has to do:
--
--   admitted   forward the request
--   denied     answer 429, with the fields below
--   forbidden  answer 403: the client is on the deny list
--   malformed  answer 400: fastlimit refuses the request
--   undecided  fail open or closed: no answer in time, or a 5xx
--
-- and, of a denial, txn.fastlimit_retry_after, txn.fastlimit_ratelimit and
-- txn.fastlimit_ratelimit_policy.

-- What rules use beside address, method, host and path: {"x-api-key"} for key:
-- header:X-Api-Key, {"cookie"} for a cookie. fastlimit gets nothing else of the
-- request, so a long cookie or an odd header cannot make it refuse to decide.
local passed = {}

-- What clients are told, by the variable that has it.
local told = {
  ["retry-after"] = "txn.fastlimit_retry_after",
  ["ratelimit"] = "txn.fastlimit_ratelimit",
  ["ratelimit-policy"] = "txn.fastlimit_ratelimit_policy",
}

-- question is the request to fastlimit. Everything in it comes from HAProxy, which
-- has parsed the request: no value has a line break.
local function question(txn)
  local fields = txn.http:req_get_headers()
  local host = fields["host"] and fields["host"][0] -- HTTP/1.0 may have none
  local lines = {
    host and "GET / HTTP/1.1\r\nHost: " .. host or "GET / HTTP/1.0",
    "X-Forwarded-For: " .. tostring(txn.f:src()),
    "X-Original-Method: " .. txn.f:method(),
    "X-Original-URI: " .. txn.f:url(),
    "Connection: close",
  }
  for _, name in ipairs(passed) do
    local values = fields[name]
    local i = 0
    while values and values[i] do -- all of them: fastlimit refuses two
      lines[#lines + 1] = name .. ": " .. values[i]
      i = i + 1
    end
  end
  return table.concat(lines, "\r\n") .. "\r\n\r\n"
end

-- ask returns the status and the fields of the answer, nil if there is none.
local function ask(txn, host, port, seconds)
  local socket = core.tcp()
  socket:settimeout(seconds)
  local status, fields = nil, {}
  if socket:connect(host, port) and socket:send(question(txn)) then
    local line = socket:receive("*l")
    status = line and tonumber(line:match("^HTTP/1%.%d (%d%d%d) "))
    while status do
      line = socket:receive("*l")
      if not line then
        status = nil -- cut off
      elseif line:match("^\r?$") then
        break
      else
        local name, value = line:match("^([^:]+):%s*(.-)%s*$")
        if name then
          fields[name:lower()] = value
        end
      end
    end
  end
  socket:close()
  return status, fields
end

core.register_action("fastlimit", { "http-req" }, function(txn, address, timeout)
  local host, port = address:match("^(.*):(%d+)$")
  local status, fields = ask(txn, host, tonumber(port), tonumber(timeout:match("^(%d+)ms$")) / 1000)
  if not status or status >= 500 then
    txn:set_var("txn.fastlimit", "undecided")
  elseif status >= 200 and status < 300 then
    txn:set_var("txn.fastlimit", "admitted")
  elseif fields["retry-after"] then
    for name, variable in pairs(told) do
      txn:set_var(variable, fields[name] or "")
    end
    txn:set_var("txn.fastlimit", "denied")
  elseif status == 403 then
    txn:set_var("txn.fastlimit", "forbidden")
  else
    txn:set_var("txn.fastlimit", "malformed")
  end
end, 2)
