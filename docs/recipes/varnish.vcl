# Varnish caches, and fetches from fastlimit, which limits and forwards to the
# application: what the cache answers is not counted. Start varnishd with
# -p backend_idle_timeout=30, less than fastlimit's connections.idle_timeout.
#
# The configuration of fastlimit:
#
#   upstream: http://127.0.0.1:3000
#   trusted_proxies: [127.0.0.1/32]
#
# While fastlimit is not ready, which Varnish notices within 3 seconds, requests go to
# the application, unlimited. Those before get 503, or wait.
#
# fastlimit sees GET where a client sends HEAD for something that may be cached.

vcl 4.1;

import std;

backend fastlimit {
    .host = "127.0.0.1";
    .port = "8080";
    .connect_timeout = 1s;
    .first_byte_timeout = 60s; # more than fastlimit's upstream.response_timeout
}

# fastlimit's own state, and nothing that clients can bring about.
backend admin {
    .host = "127.0.0.1";
    .port = "8081";
    .probe = {
        .url = "/readyz";
        .interval = 1s;
        .timeout = 500ms;
        .window = 2;
        .threshold = 1;
        .initial = 1;
    }
}

backend app {
    .host = "127.0.0.1";
    .port = "3000";
}

sub vcl_recv {
    # Varnish would pass on whatever follows a method that it does not know, and
    # fastlimit would take that for what Varnish says.
    if (req.method !~ "^(GET|HEAD|PUT|POST|TRACE|OPTIONS|DELETE|PATCH)$") {
        return (synth(405));
    }

    # What a client sends of these must not be believed.
    set req.http.X-Forwarded-For = client.ip;
    set req.http.X-Forwarded-Proto = "http";
    set req.http.X-Forwarded-Host = req.http.Host;
    unset req.http.Forwarded;
    unset req.http.X-Real-IP;

    set req.backend_hint = fastlimit;
    if (!std.healthy(admin)) {
        # To fail closed: return (synth(503));
        set req.backend_hint = app;
    }
}

sub vcl_backend_response {
    # A denial is for one client alone. For ten seconds others do not wait for each
    # other to learn whether the thing may be cached.
    if (beresp.status == 429 || beresp.status == 403) {
        set beresp.uncacheable = true;
        set beresp.ttl = 10s;
    }
}
