package server

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/internal/certs"
	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/internal/systemd"
	"github.com/fastlimit/fastlimit/internal/unixsocket"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/conn"
	"github.com/fastlimit/fastlimit/server/internal/decide"
	"github.com/gaissmai/bart"
)

// Listener is one address that takes traffic, and how it answers.
type Listener struct {
	// Address is host:port, unix: and the absolute path of a socket, or systemd: and the name of a socket
	// that the process was started with. Port 0 picks a free port; see [Server.Addrs]. A peer of a Unix
	// socket counts as 127.0.0.1.
	Address string
	// Mode is the permissions of a Unix socket: write permission allows connecting. 0 means 0660.
	Mode fs.FileMode
	// ProxyProtocol are the balancers whose connections begin with a header of the PROXY protocol, version 1
	// or 2, which names the client. Those without one are closed. All other peers are clients, and a header
	// from them is a bad request.
	ProxyProtocol []netip.Prefix
	// TLS is the certificate of a listener that speaks HTTPS. nil: plain HTTP. Its files
	// are read by [New].
	TLS *TLS
	// ReusePort lets another process of the same user that sets it too listen on the address (Linux), so a
	// new process may start before the old one ends. Admin is bound when its address is free.
	ReusePort bool
	// NoDeferAccept accepts TCP connections immediately. By default Linux holds them back until the client
	// has sent something, for at most a second or two, which makes a flood of new connections cheaper to
	// answer.
	NoDeferAccept bool
	// DenyStatus is the status of a denial by a rule, 400 to 599. 0 means 429.
	// nginx's auth_request wants 403.
	DenyStatus int

	// OriginalRequest says which headers of a trusted proxy name the request to decide on. nil: those of
	// Config.Identity.
	OriginalRequest *policy.OriginalRequest

	// Headers are the sets of header fields that show clients their limit. Empty means [RateLimitHeaders] and
	// [XRateLimitHeaders]. Every denial by a rule also has Retry-After.
	Headers []HeaderSet
	// HeadersOn says which answers have them.
	HeadersOn HeadersOn
	// Denial is the body of denials by a rule. Zero means a problem document
	// (RFC 9457) that names the rule.
	Denial Denial
}

// HeaderSet is a family of header fields. docs/http.md shows what each sends.
type HeaderSet = denial.HeaderSet

// The header sets.
const (
	RateLimitHeaders       HeaderSet = denial.RateLimit       // RateLimit-Policy and RateLimit, the current draft of the IETF
	RateLimitLegacyHeaders HeaderSet = denial.RateLimitLegacy // RateLimit-Limit, -Remaining and -Reset, its drafts up to -06
	XRateLimitHeaders      HeaderSet = denial.XRateLimit      // X-RateLimit-Remaining, -Clear and -Reset, in seconds with three decimals
	XRateLimitLimitHeaders HeaderSet = denial.XRateLimitLimit // X-RateLimit-Limit, -Remaining and -Retry-After
	NoHeaders              HeaderSet = denial.NoHeaders       // none of these; not combined with others
)

// HeadersOn says which answers show a client its limit.
type HeadersOn uint8

// The zero value is HeadersOnDenials.
const (
	HeadersOnDenials HeadersOn = iota
	// HeadersAlways shows the headers on admissions too, for the rule that admits the fewest further
	// requests: exact values or lower bounds, never estimates. It costs each admitted request a lookup per
	// rule.
	HeadersAlways
)

// String is the name in configuration.
func (o HeadersOn) String() string {
	switch o {
	case HeadersOnDenials:
		return "denials"
	case HeadersAlways:
		return "always"
	}
	return fmt.Sprintf("headers on %d", uint8(o))
}

// Denial is a custom body for denials by a rule. The deny list always sends a problem document, as it has no
// waiting time.
type Denial struct {
	// ContentType is the media type, for example "text/html; charset=utf-8". A Body requires it; alone it
	// means an empty body of that type.
	ContentType string
	// Body is sent as it is, with {{retry_after}} replaced by the value of Retry-After, in seconds. At most
	// 16 KiB. Two opening braces must not be used for anything else.
	Body string
}

// The default permissions of Unix sockets. The admin socket shows more than a traffic socket, and both may
// have the same group.
const (
	defaultMode fs.FileMode = 0o660
	adminMode   fs.FileMode = 0o600
)

// maxPath is the longest path that a Unix socket may have on all systems, in bytes.
const maxPath = 103

func (l *Listener) withDefaults() {
	if _, ok := unixsocket.Path(l.Address); ok {
		l.Mode = cmp.Or(l.Mode, defaultMode)
	}
	l.DenyStatus = cmp.Or(l.DenyStatus, http.StatusTooManyRequests)
}

// Validate reports everything that is wrong with a listener: each a [fastlimit.FieldError] with the path of a
// field. A DenyStatus of 0 is valid.
func (l *Listener) Validate() error {
	var p problems
	if l.DenyStatus != 0 && (l.DenyStatus < 400 || l.DenyStatus > 599) {
		p.add("DenyStatus", fmt.Sprintf("%d of listener %s is not the status of a denial", l.DenyStatus, l.Address), "want 400 to 599, 429 for most and 403 for nginx auth_request")
	}
	p.require(l.Address != "", "Address", "write host:port, for example 127.0.0.1:8080")
	l.checkPath(&p)
	if o := l.OriginalRequest; o != nil && *o > policy.OriginalXForwarded {
		p.add("OriginalRequest", fmt.Sprintf("%d: there is no such header family", *o), "want one of the constants")
	}
	if l.TLS != nil {
		_, err := l.TLS.Check(nil, time.Time{})
		p.of("TLS.", err)
	}
	for i, r := range l.ProxyProtocol {
		if !r.IsValid() || r != r.Masked() || r.Addr().Is4In6() {
			p.add(fmt.Sprintf("ProxyProtocol[%d]", i), fmt.Sprintf("%v is not a prefix", r), "want for example 10.0.0.0/8")
		}
	}
	if at, problem, fix := denial.CheckHeaders(l.Headers); problem != "" {
		p.add(fmt.Sprintf("Headers[%d]", at), problem, fix)
	}
	switch {
	case l.HeadersOn > HeadersAlways:
		p.add("HeadersOn", l.HeadersOn.String()+" is unknown", "want denials or always")
	case l.HeadersOn == HeadersAlways && len(l.Headers) == 1 && l.Headers[0] == NoHeaders:
		p.add("HeadersOn", "always has no effect, as headers is none", "name headers, or remove it")
	}
	_, err := l.page()
	p.of("Denial.", err)
	return errors.Join(p...)
}

// checkPath checks the address and mode of a Unix socket.
func (l *Listener) checkPath(p *problems) {
	path, unix := unixsocket.Path(l.Address)
	if unix {
		p.path("Address", path)
	}
	p.socket("Address", l.Address)
	if _, passed := systemd.Name(l.Address); l.ReusePort && (unix || passed) {
		p.add("ReusePort", fmt.Sprintf("is for ports, and %s is none", l.Address), "remove it")
	}
	switch {
	case l.Mode == 0:
	case !unix:
		p.add("Mode", fmt.Sprintf("%04o is for a Unix socket, and %s is not one", l.Mode, l.Address), "remove it")
	case l.Mode&^fs.ModePerm != 0:
		p.add("Mode", fmt.Sprintf("%04o has more than permission bits", l.Mode), "want for example 0660")
	case l.Mode&0o222 == 0:
		p.add("Mode", fmt.Sprintf("%04o lets nobody write, so nobody can connect", l.Mode), "want for example 0660")
	}
}

// socket checks the name of a socket passed to the process.
func (p *problems) socket(field, address string) {
	if name, ok := systemd.Name(address); ok {
		if problem := systemd.NameProblem(name); problem != "" {
			p.add(field, problem, "write the FileDescriptorName= of its unit: a letter, then letters, digits, - _ and dots")
		}
	}
}

// path checks the path of a Unix socket.
func (p *problems) path(name, path string) {
	const fix = "write for example unix:/run/fastlimit/http.sock"
	switch {
	case strings.HasPrefix(path, "@"), strings.HasPrefix(path, "\x00"):
		p.add(name, fmt.Sprintf("%q is an abstract socket, which has no permissions: any process could connect", path), fix)
	case !strings.HasPrefix(path, "/"), strings.HasSuffix(path, "/"):
		p.add(name, fmt.Sprintf("%q is not the absolute path of a socket", path), fix)
	case strings.ContainsRune(path, 0):
		p.add(name, fmt.Sprintf("%q has a zero byte", path), fix)
	case len(path) > maxPath:
		p.add(name, fmt.Sprintf("the path has %d bytes", len(path)), fmt.Sprintf("want at most %d", maxPath))
	}
}

// page returns the body of denials, or nil for a problem document.
func (l *Listener) page() (*denial.Page, error) {
	if l.Denial == (Denial{}) {
		return nil, nil
	}
	return denial.NewPage(l.Denial.ContentType, l.Denial.Body)
}

// options converts a valid listener with defaults to its connections' options. pair is nil without TLS.
func (l *Listener) options(pair *certs.Store, http2 conn.Multiplexed) conn.Options {
	o := conn.Options{Mode: l.Mode, DeferAccept: !l.NoDeferAccept, ReusePort: l.ReusePort}
	if len(l.ProxyProtocol) > 0 {
		ranges := new(bart.Lite)
		for _, p := range l.ProxyProtocol {
			ranges.Insert(p)
		}
		o.Proxied = ranges.Contains
	}
	if pair != nil {
		o.TLS = tlsConfig(pair, !l.TLS.NoHTTP2)
		if !l.TLS.NoHTTP2 {
			o.HTTP2 = http2
		}
	}
	return o
}

// answers returns how a valid listener answers, and who its clients are.
func (l *Listener) answers(common *policy.Identity) decide.Listener {
	page, err := l.page()
	if err != nil {
		panic("BUG: server: a listener that was found valid: " + err.Error())
	}
	a := decide.Listener{
		Options: denial.Options{Status: l.DenyStatus, Headers: l.Headers, Page: page},
		Always:  l.HeadersOn == HeadersAlways,
	}
	if l.OriginalRequest != nil {
		a.Identity = common.WithOriginal(*l.OriginalRequest)
	}
	return a
}
