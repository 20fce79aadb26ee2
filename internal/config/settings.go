package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket/pgstore"
	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/fastlimit/fastlimit/policy"
)

// Examples that messages quote.
const (
	rulesExample    = `write for example rules: [{name: per-ip, key: ip, rate: 100/s, burst: 200}]`
	redisExample    = `write for example redis: {url: "redis://127.0.0.1:6379/0"}`
	postgresExample = `write for example postgres: {url: "postgres://fastlimit@127.0.0.1:5432/fastlimit"}`
	clusterExample  = `write for example cluster: {name: edge, bind: "10.0.0.1:7946", join: ["10.0.0.2:7946"], secret_file: /etc/fastlimit/secret}`
	secretFix       = "set secret or secret_file; write the same random text on all nodes: openssl rand -base64 32 makes one"
)

// Bounds of the file alone. They catch slips; the packages allow as much or more.
const (
	maxConnections = 1 << 24
	minTimeout     = 100 * time.Millisecond
	maxTimeout     = time.Hour
	maxMemory      = 1 << 40 // more is a slip of the unit
	maxListeners   = 64      // every pair is compared
	maxKeyParts    = 8       // bounds the work of making a key for a request
	unbounded      = math.MaxInt32
	maxNodes       = 1000
	maxDatabase    = 1<<31 - 1
	maxOverrides   = 10_000_000
)

// reserved are settings of later versions. They are refused as not supported, which
// helps more than "unknown setting".
func reserved(names ...string) (all []setting) {
	for _, name := range names {
		all = append(all, setting{name: name})
	}
	return all
}

// The tables are set in init: as initializers of these variables they would form a
// cycle, since reading a setting looks up others (whereItBelongs).
var topSettings, upstreamSettings, listenSettings, tlsSettings, adminSettings, denialSettings, connectionSettings, drainSettings, waitSettings, redisSettings, postgresSettings, clusterSettings, listFileSettings, accessLogSettings, ruleSettings, matchSettings, notSettings, legacySettings, bucketSettings, overrideSettings, costFromSettings, rateFromSettings, banSettings, prefixSettings, kernelSettings section

func init() {
	denialSettings = section{
		name: "denial", want: "settings, such as {content_type: text/html, body_file: busy.html}", where: "in denial, indented more than denial",
		settings: []setting{
			{name: "content_type", field: "ContentType", value: text("media type", "a media type such as text/html; charset=utf-8"), required: `write for example "text/html; charset=utf-8"`, doc: "media type of the body"},
			{name: "body_file", field: "Body", value: bodyFile(), required: "name a file with the body", doc: "a file of at most 16 KiB, read once at start; `{{retry_after}}` in it is replaced by the seconds of `Retry-After`"},
		},
	}
	tlsSettings = tlsTable()
	listenSettings = section{
		name: "listener", want: "an address", where: "in an element of listen",
		settings: append([]setting{
			{
				name: "address", field: "Address", value: socketAddress(), required: `write for example {address: "127.0.0.1:8080", deny_status: 403}`,
				doc: "`host:port`, or `unix:` and the path of a socket",
			},
			{name: "mode", field: "Mode", value: socketMode(), shown: "`\"0660\"`", doc: "permissions of a Unix socket: whoever may write to it may connect"},
			{name: "proxy_protocol", field: "ProxyProtocol", value: prefixes(), shown: "none", doc: "balancers that name the client by the PROXY protocol"},
			{name: "tls", field: "TLS", value: mapping(&tlsSettings), shown: "none", doc: "certificate of a listener that speaks HTTPS"},
			{name: "deny_status", field: "DenyStatus", value: denyStatus(), shown: "that of the top level", doc: "status code of a denial"},
			{name: "original_request", field: "OriginalRequest", value: originalRequest(), shown: "that of the top level", doc: "the headers that name the request"},
			{name: "headers", field: "Headers", value: headerSets(), shown: "`ratelimit` and `x-ratelimit`", doc: "header fields that tell clients of their limit; every denial has `Retry-After` besides"},
			{name: "headers_on", field: "HeadersOn", value: choice("denials", "always"), def: "denials", doc: "the answers that have them: `always` means admissions too"},
			{name: "denial", field: "Denial", value: mapping(&denialSettings), shown: "a problem document", doc: "body of denials by a rule"},
		}, reserved("reuse_port")...),
	}
	adminSettings = section{
		name: "admin", want: "an address", where: "in admin, indented more than admin",
		settings: []setting{
			{name: "address", field: "Address", value: socketAddress(), def: DefaultAdmin, doc: "`host:port`, or `unix:` and the path of a socket"},
			{name: "token_file", field: "Token", value: tokenFile(), shown: "none", doc: "a file with the token that changes need where the address is neither on loopback nor a socket"},
		},
	}
	upstreamSettings = upstreamTable()
	connectionSettings = connectionTable()
	drainSettings = section{
		name: "drain", want: "settings, such as {delay: 1s, timeout: 10s}", where: "in drain, indented more than drain",
		settings: []setting{
			{name: "delay", field: "Delay", value: duration(0, maxTimeout, "1s", ""), def: "1s", doc: "time from `/readyz` answering 503 until no more connections are accepted"},
			{name: "timeout", field: "Timeout", value: duration(minTimeout, maxTimeout, "10s", ""), def: "10s", doc: "time for requests in flight after that"},
		},
	}
	waitSettings = section{
		name: "wait", want: "settings, such as {per_key: 10, total: 10000}", where: "in wait, indented more than wait",
		settings: []setting{
			{name: "per_key", field: "PerKey", value: whole(number{least: 1, most: fastlimit.MaxWaiters, example: "10"}), def: strconv.Itoa(fastlimit.DefaultWaitersPerKey), doc: "most requests that wait for one client of a rule"},
			{name: "total", field: "Total", value: whole(number{least: 1, most: fastlimit.MaxWaiters, example: "10000"}), def: strconv.Itoa(fastlimit.DefaultWaiters), doc: "most requests that wait in all, once for each rule that lets them; each takes up to 2 KiB and its connection"},
		},
	}
	redisSettings = redisTable()
	postgresSettings = postgresTable()
	clusterSettings = clusterTable()
	listFileSettings, accessLogSettings = listFileTable(), accessLogTable()
	notSettings = section{
		name: "not", want: `a mapping such as {path: [/healthz, "/static/*"]}`, where: "in not, indented more than not",
		settings: []setting{
			{name: "host", field: "Hosts", value: exempting(hostPatterns()), shown: "none", doc: "hosts, as in `match`"},
			{name: "path", field: "Paths", value: exempting(pathPatterns()), shown: "none", doc: "paths, likewise"},
			{name: "method", field: "Methods", value: methods(), shown: "none", doc: "methods, exactly"},
			{name: "header", field: "Headers", value: headerMatches(), shown: "none", doc: "headers with values that exempt a request; if it has several of the name, all must match"},
		},
	}
	matchSettings = section{
		name: "match", want: `a mapping such as {path: "/api/*"}`, where: "in match, indented more than match",
		settings: []setting{
			{name: "host", field: "Hosts", value: hostPatterns(), shown: "all", doc: "hosts, without port"},
			{name: "path", field: "Paths", value: pathPatterns(), shown: "all", doc: "paths, decoded and without query"},
			{name: "method", field: "Methods", value: methods(), shown: "all", doc: "methods; `post` counts as `POST`"},
			{name: "ignore_case", field: "IgnoreCase", value: boolean(), def: "false", doc: "paths match in any case, and count as one in the key"},
			{name: "header", field: "Headers", value: headerMatches(), shown: "all", doc: "headers with the values that they must have"},
			{name: "not", field: "Not", value: mapping(&notSettings), shown: "none", doc: "requests that the rule does not apply to"},
		},
	}
	legacySettings, bucketSettings = legacyTable(), bucketTable()
	overrideSettings = overrideTable()
	costFromSettings = costFromTable()
	rateFromSettings = rateFromTable()
	prefixSettings = prefixTable()
	banSettings = banTable()
	kernelSettings = kernelTable()
	ruleSettings = ruleTable()
	topSettings = topTable()
}

// Order matters in these tables: it is that of docs/configuration.md and of messages
// that list the valid settings. want and doc are phrases without a full stop; def is
// read like a value of the file (see fillDefaults), while shown only says what a package
// does by itself, which TestDefaultsAreThoseOfThePackages compares.

func topTable() section {
	return section{
		name: "top", want: "settings, such as rules:", where: "at the top level, without indentation",
		check: func(d *decoder, n *node) { d.check() },
		settings: []setting{
			{name: "listen", field: "Server.Listeners", value: listeners(), def: defaultListen, doc: "addresses that accept traffic"},
			{name: "admin", field: "Server.Admin", value: adminListener(), def: DefaultAdmin, doc: "address of health, metrics, profiles and changes"},
			{name: "upstream", field: "Server.Upstream", value: upstreamServers(), shown: "none", doc: "servers that get the admitted requests: makes this a reverse proxy"},
			{name: "deny_status", field: "DenyStatus", value: denyStatus(), def: "429", doc: "status code of a denial"},
			{name: "trusted_proxies", field: "Policy.TrustedProxies", value: prefixes(), shown: "none", doc: "proxies whose headers are believed"},
			{name: "client_ip_header", field: "Policy.ClientIPHeader", value: header(), def: defaultHeader, doc: "the header that names the client"},
			{name: "original_request", field: "Policy.OriginalRequest", value: originalRequest(), def: "none", doc: "the headers that name the request"},
			{name: "on_unnamed", field: "Policy.OnUnnamed", value: choice("peer", "skip", "deny"), def: "peer", doc: "what to do if a proxy names no client or no request"},
			{name: "bad_requests", field: "Server.BadRequests", value: choice("charge", "ignore"), def: "charge", doc: "what is done with requests that cannot be read, beside refusing them"},
			{name: "decide_api", field: "Server.DecideAPI", value: boolean(), def: "false", doc: "`POST /v1/decide` on `listen` too"},
			{name: "memory", field: "Limits.Memory", value: memory(), def: "64MiB", doc: "memory for the limiter's tables"},
			{name: "denial_logs", field: "Server.DenialLogs", value: whole(number{least: 0, most: maxDenialLogs, example: "100"}), def: "100", doc: "log lines per second for denials, one per client; the others are only counted"},
			{name: "show_keys", field: "Policy.ShowKeys", value: shownKeys(), shown: "none", doc: "headers and cookies whose values may be read in the log and by operators; of others they see a hash"},
			{name: "access_log", field: "Server.AccessLog", value: mapping(&accessLogSettings), shown: "none", doc: "a line of JSON for each request"},
			{name: "connections", field: "Server.Connections", value: mapping(&connectionSettings), shown: "below", doc: "limits on client connections"},
			{name: "watch", field: "Watch", value: boolean(), def: "false", doc: "reload when the file changes, or one that it names"},
			{name: "state_file", field: "StateFile", value: stateFile(), shown: "none: a restart forgets", doc: "a file in which a node keeps what it knows of clients, for its next start"},
			{name: "drain", field: "Server.Drain", value: mapping(&drainSettings), shown: "below", doc: "how the server stops on SIGTERM"},
			{name: "wait", field: "Limits.Wait", value: mapping(&waitSettings), shown: "below", doc: "limits on requests that wait (`max_wait`)"},
			{
				name: "top_talkers", field: "Limits.TopTalkers", shown: "`1024`",
				value: whole(number{least: 4, most: fastlimit.MaxTopTalkers, zero: "none", example: "1024"}),
				doc:   "clients of each rule that `fastlimit top` tracks, without a cluster",
			},
			{name: "redis", field: "Redis", value: mapping(&redisSettings), shown: "none", doc: "the store for exact checks that nodes share"},
			{name: "postgres", field: "Postgres", value: mapping(&postgresSettings), shown: "none", doc: "such a store in PostgreSQL, instead of `redis`"},
			{name: "cluster", field: "Cluster", value: mapping(&clusterSettings), shown: "none", doc: "the nodes that exchange counts"},
			{name: "kernel", field: "Kernel", value: mapping(&kernelSettings), shown: "none: bans stay in user space", doc: "have the kernel drop what banned peers send (Linux)"},
			{name: "allow", field: "Policy.Allow", value: accessList(policy.ListAllow), shown: "none", doc: "never limited"},
			{name: "deny", field: "Policy.Deny", value: accessList(policy.ListDeny), shown: "none", doc: "always refused"},
			{
				name: "max_overrides", field: "Policy.MaxOverrides", value: whole(number{least: 1, most: maxOverrides, example: "100000"}), shown: "`100000`",
				doc: "most overrides of all rules together",
			},
			{name: "rules", field: "Policy.Rules", value: ruleList(), required: "nothing would be limited: " + rulesExample, doc: "the limits"},
		},
	}
}

// connectionTable has upper bounds that no server needs; they catch slips of the unit.
func connectionTable() section {
	count := func(example string) value { return whole(number{least: 1, most: maxConnections, example: example}) }
	size := func(example string) value { return byteSize(1<<10, 1<<20, example, example, "") }
	timeout := func(example string) value { return duration(minTimeout, maxTimeout, example, "") }
	return section{
		name: "connections", want: "settings, such as {max: 16384, max_per_client: 1024}", where: "in connections, indented more than connections",
		settings: []setting{
			{name: "max", field: "Max", value: count("16384"), def: "16384", doc: "connections of all listeners together"},
			{name: "max_per_client", field: "MaxPerClient", value: count("1024"), def: "1024", doc: "connections of one IPv4 address or IPv6 /64; trusted proxies are exempt"},
			{name: "max_streams_per_client", field: "MaxStreamsPerClient", value: count("1024"), def: "1024", doc: "requests in progress of one such client over HTTP/2, on all its connections; one more is answered 503"},
			{name: "header_bytes", field: "HeaderBytes", value: size("32KiB"), def: "32KiB", doc: "request line and headers of a request; above it the answer is 431"},
			{name: "body_bytes", field: "BodyBytes", value: size("64KiB"), def: "64KiB", doc: "how much of a body is read and discarded to keep the connection; with a larger one the connection is closed after the answer"},
			{name: "header_timeout", field: "HeaderTimeout", value: timeout("5s"), def: "5s", doc: "time for the headers to arrive, and again for the body; after it the answer is 408"},
			{name: "idle_timeout", field: "IdleTimeout", value: timeout("60s"), def: "60s", doc: "time until the next request"},
			{name: "write_timeout", field: "WriteTimeout", value: timeout("10s"), def: "10s", doc: "time for an answer to make progress"},
		},
	}
}

// redisTable leaves defaults to package redisstore: a field that is zero there means
// "not written", which its check of what goes together needs to know.
func redisTable() section {
	file, user := text("path", "the path of a file"), text("text", "a user name")
	return section{
		name: "redis", want: `settings such as {url: "redis://127.0.0.1:6379/0"}`, where: "in redis, indented more than redis",
		oneOf: []string{"url", "url_file", "addresses"}, example: redisExample, check: checkRedis,
		settings: []setting{
			{name: "url", field: "URL", value: anyText("URL", textSchema(), "a URL such as redis://127.0.0.1:6379/0"), doc: "`redis://`, `rediss://` (TLS) or `unix://`, with user, password and database"},
			{name: "url_file", field: "URL", value: fileContent(), doc: "a file with the URL, to keep a password out of this one"},
			{name: "addresses", field: "Addrs", value: listOf("list of addresses", `a list such as ["127.0.0.1:6379"]`, address()), doc: "instead of a URL: one server, the sentinels, or some nodes of a cluster"},
			{name: "master_name", field: "MasterName", value: text("text", "the name of the primary as Sentinel knows it"), shown: "none", doc: "the name of the primary in Sentinel"},
			{name: "cluster", field: "Cluster", value: boolean(), shown: "`false`", doc: "Redis Cluster"},
			{name: "username", field: "Username", value: user, shown: "that of the URL", doc: "ACL user"},
			{name: "password", field: "Password", value: text("text", "a password"), shown: "that of the URL", doc: "better in `password_file` or `${ENV}`"},
			{name: "password_file", field: "Password", value: fileContent(), doc: "a file with the password"},
			{name: "sentinel_username", field: "SentinelUsername", value: user, shown: "none", doc: "ACL user of the sentinels"},
			{name: "sentinel_password", field: "SentinelPassword", value: text("text", "a password"), shown: "none", doc: "password of the sentinels; `password` is for the servers"},
			{name: "sentinel_password_file", field: "SentinelPassword", value: fileContent(), doc: "a file with that password"},
			{name: "database", field: "DB", value: whole(number{most: maxDatabase, example: "0"}), shown: "`0`", doc: "database number, with `addresses`; a URL has its own"},
			{name: "key_prefix", field: "KeyPrefix", value: text("text", "a prefix such as fastlimit:"), shown: "`fastlimit:`", doc: "prefix of every key"},
			{
				name: "timeout", field: "Timeout", value: duration(time.Millisecond, time.Second, "5ms", ": requests wait for so long when Redis is slow"), shown: "`5ms`",
				doc: "longest time that a request waits; then `on_failure` decides. Use 5 times the round trip: if Redis is farther away than this, all suspects are decided without it",
			},
			{name: "tls", field: "TLS", value: boolean(), shown: "as the URL says", doc: "TLS to the servers, and to the sentinels too"},
			{name: "ca_file", field: "CAFile", value: file, shown: "the system's", doc: "CA certificates that the server's certificate is verified against; turns TLS on"},
			{name: "cert_file", field: "CertFile", value: file, shown: "none", doc: "client certificate of this node; turns TLS on"},
			{name: "key_file", field: "KeyFile", value: file, shown: "none", doc: "key of the client certificate"},
			{name: "server_name", field: "ServerName", value: text("text", "the name in the server's certificate"), shown: "the host", doc: "the name in the server's certificate"},
			{name: "workers", field: "Workers", value: whole(number{least: 1, most: redisstore.MaxWorkers, example: "2"}), shown: "`2`", doc: "batches in flight, each on a connection of its own"},
			{name: "queue", field: "Queue", value: whole(number{least: 1, most: redisstore.MaxQueue, example: "2048"}), shown: "`2048`", doc: "how many checks may wait for a worker"},
			{name: "retry_min", field: "RetryMin", value: duration(time.Millisecond, time.Minute, "100ms", ""), shown: "`100ms`", doc: "pause before the second attempt to reach a Redis that is down; it doubles each time"},
			{name: "retry_max", field: "RetryMax", value: duration(time.Millisecond, time.Minute, "2s", ""), shown: "`2s`", doc: "longest such pause"},
		},
	}
}

// postgresTable leaves defaults to package pgstore, but for timeout, which the limiter
// is planned with.
func postgresTable() section {
	return section{
		name: "postgres", want: `settings such as {url: "postgres://fastlimit@127.0.0.1:5432/fastlimit"}`, where: "in postgres, indented more than postgres",
		oneOf: []string{"url", "url_file"}, example: postgresExample,
		settings: []setting{
			{name: "url", field: "URL", value: anyText("URL", textSchema(), "a URL such as postgres://fastlimit@127.0.0.1:5432/fastlimit"), doc: "`postgres://user@host:5432/database`, with parameters of libpq such as `sslmode=verify-full`, and several hosts where there are standbys"},
			{name: "url_file", field: "URL", value: fileContent(), doc: "a file with the URL, to keep a password out of this one"},
			{name: "schema", field: "Schema", value: text("text", "a name such as fastlimit"), shown: "`fastlimit`", doc: "schema with the table and the functions, made by `fastlimit store init`"},
			{
				name: "timeout", field: "Timeout", value: duration(time.Millisecond, time.Second, "20ms", ": requests wait for so long when PostgreSQL is slow"), def: "20ms",
				doc: "longest time that a request waits; then `on_failure` decides. Use 5 times the round trip",
			},
			{name: "workers", field: "Workers", value: whole(number{least: 1, most: pgstore.MaxWorkers, example: "2"}), shown: "`2`", doc: "batches in flight, each on a connection of its own; there are two connections more"},
			{name: "queue", field: "Queue", value: whole(number{least: 1, most: pgstore.MaxQueue, example: "2048"}), shown: "`2048`", doc: "how many checks may wait for a worker"},
			{name: "retry_min", field: "RetryMin", value: duration(time.Millisecond, time.Minute, "100ms", ""), shown: "`100ms`", doc: "pause before the second attempt to reach a PostgreSQL that is down; it doubles each time"},
			{name: "retry_max", field: "RetryMax", value: duration(time.Millisecond, time.Minute, "2s", ""), shown: "`2s`", doc: "longest such pause"},
			{name: "prune", field: "Prune", value: duration(time.Second, 24*time.Hour, "1m", ""), shown: "`1m`", doc: "pause between two searches for expired rows"},
		},
	}
}

// clusterTable fills config.Cluster, in which gossip.Config is embedded: a new knob of
// the cluster is a field there and a row here. The bounds on interval and max_bytes are
// those within which the bound on all nodes together is worth having.
func clusterTable() section {
	const name = "a name of 1 to 64 letters, digits, dots, dashes or underscores"
	node := nameOf(name+", or host:port", nameRunes+":[]") // as its default is
	return section{
		name: "cluster", want: "settings: " + clusterExample, where: "in cluster, indented more than cluster",
		settings: []setting{
			{
				name: "name", field: "Name", value: nameOf(name, nameRunes), required: "give all nodes the same one, for example name: edge",
				doc: "the same on all nodes, and in no other cluster",
			},
			{
				name: "bind", field: "Bind", value: address(), required: `write the address that the other nodes reach, for example bind: "10.0.0.1:7946"`,
				doc: "address at which the other nodes reach this one, UDP and TCP",
			},
			{name: "join", field: "Join", value: listOf("list of addresses", `a list such as ["10.0.0.2:7946"]`, address()), shown: "none", doc: "nodes to contact at start; one that is up is enough"},
			{name: "secret", field: "Secret", value: anyText("text", schema{"type": []string{"string", "number"}}, "a secret of 16 characters or more"), required: secretFix, doc: "16 characters or more, the same on all nodes"},
			{name: "secret_file", field: "Secret", value: fileContent(), doc: "a file with the secret, to keep it out of this one"},
			{
				name: "interval", field: "Interval", def: "100ms", doc: "time between two exchanges",
				value: duration(20*time.Millisecond, 10*time.Second, "100ms", ": what a client gains by visiting all nodes grows with it"),
			},
			{name: "node", field: "Node", value: node, shown: "where the others reach it", doc: "unique name of this node; if two nodes share one, the later is not ready"},
			{
				name: "advertise", field: "Advertise", shown: "that of `bind`", doc: "address at which the other nodes reach this one, if not `bind`",
				value: text("IP address and port", "the IP address and port at which the other nodes reach this one, for example 10.0.0.1:7946"),
			},
			{
				name: "max_bytes", field: "MaxBytes", def: "16KiB", doc: "most bytes sent to each other node per interval",
				value: byteSize(4<<10, 1<<20, "16KiB", "16KiB", ": what one node sends another at each interval"),
			},
			{name: "max_nodes", field: "MaxNodes", value: whole(number{least: 2, most: maxNodes, example: "32"}), def: "32", doc: "highest number of nodes; more are let in only from addresses in `join`"},
			{name: "top_talkers", field: "TopTalkers", value: whole(number{least: 4, most: fastlimit.MaxTopTalkers, example: "8192"}), def: "8192", doc: "clients of each rule that are tracked individually"},
			{name: "ignore", field: "Ignore", value: listOf("list of names", "a list of nodes such as [edge-3]", node), shown: "none", doc: "nodes whose counts and bans are ignored"},
			{name: "accept_bans", field: "AcceptBans", value: boolean(), def: "false", doc: "whom another node bans is banned here too"},
		},
	}
}

// ruleTable fills policy.RuleSpec, whose Limit is the fastlimit.RuleConfig. Fields
// without def stay zero where the file is silent, and package fastlimit fills them in.
func ruleTable() section {
	positive := func(example string) value { return whole(number{least: 1, most: math.MaxUint64, example: example}) }
	return section{
		name: "rule", want: "a rule such as {name: per-ip, key: ip, rate: 100/s}", where: "in a rule, indented like its name",
		check: checkRule,
		settings: []setting{
			{
				name: "name", field: "Limit.Name", value: nameOf("a name of 1 to 64 letters, digits, dots, dashes or underscores", nameRunes),
				required: "give the rule a name, for example name: per-ip", doc: "name of the rule in metrics and headers",
			},
			{name: "key", field: "Key", value: ruleKey(), def: "ip", doc: "what requests are counted by"},
			{name: "match", field: "Match", value: mapping(&matchSettings), shown: "every request", doc: "which requests the rule applies to"},
			{name: "rate", field: "Limit.Rate", value: rate(), required: "write for example rate: 100/s", doc: "what a client may send in the long run"},
			{name: "algorithm", field: "Limit.Algorithm", value: choice(algorithms...), def: "leaky_bucket", doc: "how the rule counts"},
			{name: "legacy", field: "Limit.Rate", value: legacyLimit(), shown: "none", doc: "instead of `rate` and `burst`: a limit by requests and time, as Sharkey defines it"},
			{name: "bucket", field: "Limit.Rate", value: legacyBucket(), shown: "none", doc: "likewise, as a bucket that loses drips"},
			{name: "factor", field: "Factor", value: factor(), shown: "`1`", doc: "divides the size of `legacy` or `bucket` and multiplies the time between its drips: below 1 relaxes the limit"},
			{name: "burst", field: "Limit.Burst", value: positive("200"), shown: "the number in `rate`", doc: "what a client may send at once; not with a window or a log"},
			{name: "count_denied", field: "Limit.CountDenied", value: boolean(), def: "false", doc: "windows only: denied requests count too"},
			{name: "cost", field: "Limit.Cost", value: ruleCost(), shown: "`1`", doc: "units that a request takes, at most `burst`; with up to three decimals where the rule is a bucket"},
			{name: "max_wait", field: "Limit.MaxWait", value: duration(time.Millisecond, fastlimit.MaxMaxWait, "2s", ""), shown: "none", doc: "how long a request may wait for its place in line instead of being denied; buckets only"},
			{name: "mode", field: "Limit.Mode", value: choice("enforce", "shadow"), def: "enforce", doc: "whether the rule denies, or only counts"},
			{name: "escalate_at", field: "Limit.EscalateAt", value: fraction("0.5"), shown: "`0.5`, or `0` if `burst` < 10", doc: "fraction of `burst` from which on requests are checked exactly"},
			{name: "strict", field: "Limit.Strict", value: boolean(), def: "false", doc: "check every request exactly"},
			{name: "on_failure", field: "Limit.OnFailure", value: choice("local", "open", "closed"), def: "local", doc: "what decides when Redis does not answer"},
			{name: "overrides", field: "Overrides", value: overrideList(), shown: "none", doc: "other limits, or none, for some clients"},
			{name: "overrides_file", field: "Overrides", value: overridesFile(), doc: "a file with overrides, one on each line, for long lists"},
			{name: "cost_from", field: "CostFrom", value: mapping(&costFromSettings), shown: "none", doc: "where the cost of a request comes from, if not from `cost`"},
			{name: "on_bad_cost", field: "OnBadCost", value: choice("reject", "deny", "charge"), def: "reject", doc: "what to do with a request whose cost is none"},
			{name: "rate_from", field: "RateFrom", value: mapping(&rateFromSettings), shown: "none", doc: "where the rate of a client comes from, if not from `rate`"},
			{name: "ban", field: "Limit.Ban", value: ruleBan(), shown: "none", doc: "refuse clients for a while that are denied too often"},
		},
	}
}

// ruleList is the list of rules, which must not be empty: a limiter without rules is a
// mistake that would show only when it is needed.
func ruleList() value {
	v := listOf("list of rules", "a list: "+rulesExample, mapping(&ruleSettings))
	list := v.read
	v.schema["minItems"], v.schema["maxItems"] = 1, fastlimit.MaxRules
	v.read = func(d *decoder, n *node, to reflect.Value) bool {
		switch {
		case n.kind == isNull, n.kind == isList && len(n.items) == 0:
			d.fail(n, "no rules: nothing would be limited", rulesExample)
			return false
		case len(n.items) > fastlimit.MaxRules:
			d.fail(n, fmt.Sprintf("%d rules", len(n.items)), "want at most 256")
			return false
		}
		return list(d, n, to)
	}
	return v
}
