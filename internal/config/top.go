package config

import (
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/policy"
)

const maxDenialLogs = 100 // of package server

// topSettings are at the top level. Those with more to say than a row have a file of their
// own, sections or not.
var topSettings = section{
	name: "top", want: "settings, such as rules:", where: "at the top level, without indentation",
	check: func(d *decoder, n *node) { d.check() },
	settings: []setting{
		{name: "listen", field: "Server.Listeners", value: listeners(), def: defaultListen, doc: "addresses that accept traffic"},
		{name: "admin", field: "Server.Admin", value: adminListener(), def: DefaultAdmin, doc: "address for health checks, metrics, profiles and changes"},
		{name: "upstream", field: "Server.Upstream", value: upstreamServers(), shown: "none", doc: "servers that get the admitted requests; makes fastlimit a reverse proxy"},
		{name: "deny_status", field: "DenyStatus", value: denyStatus(), def: "429", doc: "status code of a denial"},
		{name: "trusted_proxies", field: "Policy.TrustedProxies", value: prefixes(), shown: "none", doc: "proxies whose headers are trusted"},
		{name: "client_ip_header", field: "Policy.ClientIPHeader", value: header(), def: defaultHeader, doc: "the header that names the client"},
		{name: "original_request", field: "Policy.OriginalRequest", value: originalRequest(), def: "none", doc: "the headers that describe the original request"},
		{name: "on_unnamed", field: "Policy.OnUnnamed", value: choice("peer", "skip", "deny"), def: "peer", doc: "what to do if a proxy names no client or no request"},
		{name: "bad_requests", field: "Server.BadRequests", value: choice("charge", "ignore"), def: "charge", doc: "whether requests that cannot be read are also charged"},
		{name: "decide_api", field: "Server.DecideAPI", value: boolean(), def: "false", doc: "`POST /v1/decide` on `listen` too"},
		{name: "memory", field: "Limits.Memory", value: memory(), def: "64MiB", doc: "memory for the limiter's tables"},
		{name: "denial_logs", field: "Server.DenialLogs", value: whole(number{least: 0, most: maxDenialLogs, example: "100"}), def: "100", doc: "log lines per second for denials, one per client; the others are only counted"},
		{name: "show_keys", field: "Policy.ShowKeys", value: shownKeys(), shown: "none", doc: "headers and cookies whose values the log and operators may see; others are shown as hashes"},
		{name: "access_log", field: "Server.AccessLog", value: mapping(&accessLogSettings), shown: "none", doc: "a line of JSON for each request"},
		{name: "connections", field: "Server.Connections", value: mapping(&connectionSettings), shown: "below", doc: "limits on client connections"},
		{name: "watch", field: "Watch", value: boolean(), def: "false", doc: "reload when the file changes, or a file that it names"},
		{name: "state_file", field: "StateFile", value: stateFile(), shown: "none: a restart forgets", doc: "a file in which a node keeps its clients' state for its next start"},
		{name: "drain", field: "Server.Drain", value: mapping(&drainSettings), shown: "below", doc: "how the node stops on SIGTERM"},
		{name: "wait", field: "Limits.Wait", value: mapping(&waitSettings), shown: "below", doc: "limits on requests that wait (`max_wait`)"},
		{
			name: "top_talkers", field: "Limits.TopTalkers", shown: "`1024`",
			value: whole(number{least: 4, most: limit.MaxTopTalkers, zero: "none", example: "1024"}),
			doc:   "clients of each rule that `fastlimit top` tracks, without a cluster",
		},
		{name: "redis", field: "Redis", value: mapping(&redisSettings), shown: "none", doc: "the store for exact checks that nodes share"},
		{name: "postgres", field: "Postgres", value: mapping(&postgresSettings), shown: "none", doc: "PostgreSQL as that store, instead of `redis`"},
		{name: "cluster", field: "Cluster", value: mapping(&clusterSettings), shown: "none", doc: "the nodes that exchange counts"},
		{name: "kernel", field: "Kernel", value: mapping(&kernelSettings), shown: "none: bans stay in user space", doc: "drop packets of banned peers in the kernel (Linux)"},
		{name: "allow", field: "Policy.Allow", value: accessList(policy.ListAllow), shown: "none", doc: "clients that are never limited"},
		{name: "deny", field: "Policy.Deny", value: accessList(policy.ListDeny), shown: "none", doc: "clients that are always refused"},
		{
			name: "max_overrides", field: "Policy.MaxOverrides", value: whole(number{least: 1, most: maxOverrides, example: "100000"}), shown: "`100000`",
			doc: "the most overrides, all rules together",
		},
		{name: "rules", field: "Policy.Rules", value: ruleList(), required: "nothing would be limited: " + rulesExample, doc: "the limits"},
	},
}
