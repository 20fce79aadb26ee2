package config

import (
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/server"
)

const upstreamExample = `write for example upstream: {url: "http://127.0.0.1:3000"}`

// Bounds of the file alone, which catch slips of the unit.
const (
	maxUpstreamTime = 24 * time.Hour // WebSockets may be silent for hours
	minDial         = time.Millisecond
	maxUpstreams    = 64 // of package server
)

// upstreamSettings fills server.Upstream.
var upstreamSettings = section{
	name: "upstream", want: `a URL, or settings such as {url: "http://127.0.0.1:3000"}`, where: "in upstream, indented more than upstream", like: "redis",
	settings: []setting{
		{
			name: "url", field: "URLs", value: oneOrMore("URL, or list of URLs", maxUpstreams, "URLs", upstreamURL()), required: upstreamExample,
			doc: "the servers: `http://host:port`, `https://host:port`, or `unix:` and the path of a socket",
		},
		{name: "connect_timeout", field: "ConnectTimeout", value: duration(minDial, maxTimeout, "1s", ""), def: "1s", doc: "time to connect to a server, including the TLS handshake"},
		{name: "response_timeout", field: "ResponseTimeout", value: duration(minTimeout, maxTimeout, "30s", ""), def: "30s", doc: "time from the end of a request to the headers of its answer"},
		{name: "idle_timeout", field: "IdleTimeout", value: duration(minTimeout, maxUpstreamTime, "60s", ""), def: "60s", doc: "silence in an answer, or on an upgraded connection such as a WebSocket, after which it is cut"},
		{name: "max_connections", field: "MaxConnections", value: whole(number{least: 1, most: maxConnections, example: "1024"}), def: "1024", doc: "connections to all servers together, and so the most requests that they get at a time"},
		{
			name: "max_per_client", field: "MaxPerClient", value: whole(number{least: 1, most: maxConnections, example: "100"}), shown: "a fair share",
			doc: "connections for one IPv4 address or IPv6 /64; further requests of that client wait",
		},
		{name: "max_queue", field: "MaxQueue", value: queueLength(whole(number{least: 1, most: maxConnections, zero: "none", example: "1024"})), def: "1024", doc: "requests that may wait for a connection; further ones are answered 503"},
		{name: "queue_timeout", field: "QueueTimeout", value: duration(minDial, maxTimeout, "1s", ""), def: "1s", doc: "how long a request waits for a connection before it is answered 503"},
		{name: "look_alikes", field: "LookAlikes", value: choice("drop", "refuse"), def: "drop", doc: "what happens to header fields such as `X_Api_Key`, which servers may take for `X-Api-Key`"},
	},
}

// upstreamServers is a URL, which is all that most files need, or a mapping.
func upstreamServers() value {
	one, more := upstreamURL(), mapping(&upstreamSettings)
	return value{docs: "URL, or mapping", schema: schema{"anyOf": []schema{one.schema, more.schema}}, section: &upstreamSettings, read: func(d *decoder, n *node, to reflect.Value) bool {
		if n.kind == isMapping {
			return more.read(d, n, to)
		}
		u := &server.Upstream{URLs: make([]string, 1)}
		to.Set(reflect.ValueOf(u))
		d.places[join(n.field, "URLs")] = n
		ok := one.read(d, n, reflect.ValueOf(&u.URLs[0]).Elem())
		upstreamSettings.fillDefaults(d, n.field, reflect.ValueOf(u).Elem())
		return ok
	}}
}

// upstreamURL is one that package server accepts. No message shows it, since it may hold
// a password.
func upstreamURL() value {
	return parsed("URL", patternSchema("^(unix:/.*[^/]|[Hh][Tt][Tt][Pp][Ss]?://[^/?#@]+)$"), "a URL such as http://127.0.0.1:3000", parseUpstream)
}

func parseUpstream(s scalar) (url, problem, fix string) {
	for _, e := range field.All((&server.Upstream{URLs: []string{s.text}}).Validate()) {
		return "", e.Problem, e.Fix
	}
	return s.text, "", ""
}

// queueLength is a number of which 0 is none, which package server takes for the default.
func queueLength(v value) value {
	read := v.read
	v.read = func(d *decoder, n *node, to reflect.Value) bool {
		ok := read(d, n, to)
		if ok && to.Int() == 0 {
			to.SetInt(-1)
		}
		return ok
	}
	return v
}

// checkUpstream reports what contradicts a proxy, and servers that are this one.
func (d *decoder) checkUpstream() {
	u := d.cfg.Server.Upstream
	if u == nil {
		return
	}
	const path = "Server.Upstream"
	d.report(path, u.Validate())
	if d.cfg.Server.DecideAPI {
		d.fail(d.place("Server.DecideAPI"), "is for a decision service, and upstream makes this a proxy", "remove it: POST /v1/decide is on admin")
	}
	for i := range u.URLs {
		n := d.places[fmt.Sprintf("%s.URLs[%d]", path, i)]
		if n == nil {
			n = d.place(path + ".URLs")
		}
		if n.failed {
			continue
		}
		if problem := ownAddress(&d.cfg.Server, i, d.machine.resolve); problem != "" {
			d.fail(n, problem, "name the server that should get the requests")
		}
	}
}

// ownAddress says which listener of ours the upstream server i is; "" if it is none.
func ownAddress(s *server.Config, i int, names resolver) (problem string) {
	addr := s.Upstream.Addresses()[i]
	reaches := func(l string) bool { return reached(l, addr, names) }
	if at := slices.IndexFunc(s.Listeners, func(l server.Listener) bool { return reaches(l.Address) }); at >= 0 {
		return "is the listener " + s.Listeners[at].Address + ": requests would loop"
	}
	if s.Admin != "" && reaches(s.Admin) {
		return "is admin, which clients must never reach"
	}
	return ""
}

// reached reports whether who connects to addr gets to the listener. One on all
// addresses is known to be reached by way of loopback; other addresses may be those of
// other machines.
func reached(listener, addr string, names resolver) bool {
	if strings.HasPrefix(listener, "unix:") || strings.HasPrefix(addr, "unix:") {
		return listener == addr
	}
	if !overlap(listener, addr, names) {
		return false
	}
	host, _, _ := net.SplitHostPort(listener)
	bound, _ := names.find(host)
	to, _, _ := net.SplitHostPort(addr)
	if !bound.IsValid() || !bound.IsUnspecified() {
		return true // the very same
	}
	at, ok := names.find(to)
	return ok && (at.IsLoopback() || at == netip.IPv4Unspecified() || at == netip.IPv6Unspecified())
}

// overrideUpstream replaces the servers, and keeps the other settings of upstream.
func (c *Config) overrideUpstream(f Flags, errs *flagErrors) {
	url, problem, fix := parseUpstream(scalar{text: f.Upstream})
	if problem != "" {
		errs.add("upstream", "URL", problem, fix) // without its value, which may hold a password
		return
	}
	u := server.Upstream{}
	if c.Server.Upstream != nil {
		u = *c.Server.Upstream
	} else {
		d := &decoder{places: map[string]*node{}, cfg: c, lookupEnv: func(string) (string, bool) { return "", false }}
		upstreamSettings.fillDefaults(d, "", reflect.ValueOf(&u).Elem())
	}
	u.URLs = []string{url}
	c.Server.Upstream = &u
	if c.Server.DecideAPI {
		*errs = append(*errs, fmt.Errorf("--upstream: the file has decide_api, which is for a decision service; remove one of the two"))
	}
}
