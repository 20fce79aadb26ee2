package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/internal/unixsocket"
	"github.com/fastlimit/fastlimit/server/internal/proxy"
	"github.com/fastlimit/fastlimit/server/internal/upstream"
)

// Upstream is the servers behind a reverse proxy, which get the admitted requests. Zero values, except of
// URLs, mean the defaults. Connections.WriteTimeout bounds writing a request.
type Upstream struct {
	// URLs name the servers, without user, path, query and fragment: http://host:port, https://host:port, or
	// unix: and the absolute path of a socket. Each request goes to the one with the fewest in flight; one
	// that fails is left out for a while.
	URLs []string

	// ConnectTimeout bounds a dial, including the TLS handshake. 0 means 1 s. A higher one than servers ever
	// need makes clients wait for one that is away.
	ConnectTimeout time.Duration
	// ResponseTimeout bounds the time from the end of a request to the head of its answer. 0
	// means 30 s. It and the next one are enforced up to an eighth late.
	ResponseTimeout time.Duration
	// IdleTimeout is how long a server may be silent within an answer, and both sides of an
	// upgraded connection. 0 means 60 s.
	IdleTimeout time.Duration

	// MaxConnections bounds the connections to all servers together, and so how many
	// requests they get at a time. 0 means 1024. New lowers it to what the limit on open
	// files allows.
	MaxConnections int
	// MaxPerClient bounds the connections that one IPv4 address or IPv6 /64 has at a time. 0 means at most
	// four times what is left then.
	MaxPerClient int
	// MaxQueue bounds how many requests wait for a connection, QueueTimeout for how long
	// each. 0 means 1024 and 1 s; a negative MaxQueue means none.
	MaxQueue     int
	QueueTimeout time.Duration

	// LookAlikes is what to do with header fields that servers may confuse with those that rules, costs or
	// framing depend on, such as X_Api_Key with X-Api-Key.
	LookAlikes LookAlikes
}

// LookAlikes is what to do with a header field that servers may confuse with another.
type LookAlikes uint8

// The choices of Upstream.LookAlikes.
const (
	DropLookAlikes   LookAlikes = iota // pass the request on without the field
	RefuseLookAlikes                   // answer 400
)

// proxied returns the proxy's settings for passing requests to pool.
func (c *Config) proxied(pool *upstream.Pool) proxy.Settings {
	return proxy.Settings{
		Pool: pool, ClientHeader: c.Identity.Header(), Headers: c.Engine.Headers(), RefuseLookAlikes: c.Upstream.LookAlikes == RefuseLookAlikes,
	}
}

// maxUpstreams bounds the servers: all are looked at for each request.
const maxUpstreams = 64

// Validate reports everything that is wrong, each a [fastlimit.FieldError] with the path
// of a field. No message shows a URL that may hold a password.
func (u *Upstream) Validate() error {
	var p problems
	p.require(len(u.URLs) > 0, "URLs", "write for example http://127.0.0.1:3000")
	if len(u.URLs) > maxUpstreams {
		p.add("URLs", fmt.Sprintf("%d servers are too many", len(u.URLs)), fmt.Sprintf("want at most %d", maxUpstreams))
		return errors.Join(p...)
	}
	seen := map[string]int{}
	for i, text := range u.URLs {
		name := fmt.Sprintf("URLs[%d]", i)
		s := p.server(name, text)
		if s.Address == "" {
			continue // reported
		}
		if first, twice := seen[s.Network+s.Address]; twice {
			p.add(name, fmt.Sprintf("%q is the same server as %q", text, u.URLs[first]), "remove one of the two")
			continue
		}
		seen[s.Network+s.Address] = i
	}
	checked := *u
	checked.withDefaults(&p)
	return errors.Join(p...)
}

// withDefaults fills in the defaults, and reports what is out of range.
func (u *Upstream) withDefaults(p *problems) {
	p.positive("ConnectTimeout", &u.ConnectTimeout, upstream.DefaultConnectTimeout)
	p.positive("ResponseTimeout", &u.ResponseTimeout, upstream.DefaultResponseTimeout)
	p.positive("IdleTimeout", &u.IdleTimeout, upstream.DefaultIdleTimeout)
	p.positive("QueueTimeout", &u.QueueTimeout, upstream.DefaultQueueTimeout)
	p.atLeast("MaxConnections", &u.MaxConnections, 1, upstream.DefaultMaxConnections)
	if u.MaxPerClient < 0 {
		p.add("MaxPerClient", fmt.Sprintf("%d is negative", u.MaxPerClient), "want 0 for a fair share, or more")
	}
	if u.MaxQueue == 0 {
		u.MaxQueue = upstream.DefaultMaxQueue
	}
}

// Addresses returns the servers' addresses, in the order of URLs: host:port, or unix: and a path. It is ""
// for an invalid URL.
func (u *Upstream) Addresses() (all []string) {
	for _, text := range u.URLs {
		s := new(problems).server("", text)
		if s.Network == "unix" {
			s.Address = "unix:" + s.Address
		}
		all = append(all, s.Address)
	}
	return all
}

const urlFix = "write for example http://127.0.0.1:3000, https://app.internal or unix:/run/app.sock"

// server reads a URL, and reports what is wrong with it; its Address is then "".
func (p *problems) server(field, text string) (s upstream.Server) {
	reported := len(*p)
	if path, ok := unixsocket.Path(text); ok {
		if p.path(field, path); len(*p) > reported {
			return s
		}
		return upstream.Server{Network: "unix", Address: path, Name: text}
	}
	u, err := url.Parse(text)
	scheme, _, hasScheme := strings.Cut(text, "://")
	switch {
	case !hasScheme:
		p.add(field, "is not a URL", urlFix)
	case strings.ToLower(scheme) != "http" && strings.ToLower(scheme) != "https":
		p.add(field, fmt.Sprintf("scheme %q is not one of http, https and unix", scheme), urlFix)
	case err != nil:
		p.add(field, "cannot be read as a URL (not shown, it may hold a password)", urlFix)
	case u.User != nil:
		p.add(field, "contains a user or a password", "remove it: fastlimit does not log in, it forwards what clients send")
	case u.Path != "" || u.RawPath != "":
		p.add(field, fmt.Sprintf("has the path %q", u.Path), "remove it: requests keep the path that clients send")
	case u.RawQuery != "" || u.ForceQuery:
		p.add(field, "has a query", "remove it: requests keep what clients send")
	case strings.Contains(text, "#"):
		p.add(field, "has a fragment", "remove it: requests keep what clients send")
	case u.Hostname() == "":
		p.add(field, "names no host", urlFix)
	case !isHost(u.Hostname()):
		p.add(field, fmt.Sprintf("%q is neither an IP address nor a host name", u.Hostname()), urlFix)
	}
	if len(*p) > reported {
		return s
	}
	port := u.Port()
	if n, err := strconv.ParseUint(port, 10, 16); strings.HasSuffix(u.Host, ":") || port != "" && (err != nil || n == 0) {
		p.add(field, fmt.Sprintf("port %q is not a number from 1 to 65535", port), urlFix)
		return s
	}
	host := strings.ToLower(u.Hostname())
	s = upstream.Server{Network: "tcp", Name: u.Scheme + "://" + strings.ToLower(u.Host)}
	if u.Scheme == "https" {
		s.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
		port = orPort(port, "443")
	}
	s.Address = net.JoinHostPort(host, orPort(port, "80"))
	return s
}

func orPort(port, byDefault string) string {
	if port == "" {
		return byDefault
	}
	return strings.TrimLeft(port, "0")
}

// isHost checks only the form of a host: a dial shows whether it exists.
func isHost(host string) bool {
	if a, err := netip.ParseAddr(host); err == nil {
		return !a.IsUnspecified() && !a.IsMulticast() // 0.0.0.0 is an address to listen on
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	return len(host) <= 253 && strings.Trim(last, "0123456789") != "" && !strings.ContainsFunc(host, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '-' && r != '_'
	})
}

// upstreamURLs returns the servers' URLs, if any.
func (c *Config) upstreamURLs() []string {
	if c.Upstream == nil {
		return nil
	}
	return c.Upstream.URLs
}

// pool makes the connection pool, which dials when needed. u is valid and has its defaults.
func (u *Upstream) pool(write time.Duration, log *slog.Logger) *upstream.Pool {
	c := upstream.Config{
		ConnectTimeout: u.ConnectTimeout, ResponseTimeout: u.ResponseTimeout, WriteTimeout: write, IdleTimeout: u.IdleTimeout,
		MaxConnections: u.MaxConnections, MaxPerClient: u.MaxPerClient, MaxQueue: u.MaxQueue, QueueTimeout: u.QueueTimeout, Log: log,
	}
	for _, text := range u.URLs {
		c.Servers = append(c.Servers, new(problems).server("", text))
	}
	return upstream.New(c)
}
