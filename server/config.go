package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/internal/unixsocket"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/admin"
	"github.com/fastlimit/fastlimit/server/internal/expel"
	"github.com/fastlimit/fastlimit/server/internal/logs"
	"github.com/prometheus/client_golang/prometheus"
)

// BadRequests is what to do with requests that are refused because they cannot be read or do not arrive in
// time.
type BadRequests uint8

// The choices of Config.BadRequests.
const (
	ChargeBadRequests BadRequests = iota // charge the peer under its rules by address, unless it is a trusted proxy
	IgnoreBadRequests                    // charge nobody
)

// String is the choice as a configuration file names it.
func (b BadRequests) String() string {
	if b == IgnoreBadRequests {
		return "ignore"
	}
	return "charge"
}

// What the admin listener answers with.
type (
	// Overrides are the limits that operators give to clients of a rule for a while.
	Overrides = admin.Overrides
	// Bans are the clients that rules or operators refuse for a while.
	Bans = admin.Bans
)

// LiveRules are operators' temporary changes to rules.
type LiveRules interface {
	admin.LiveRules

	// Left is the time until a rule is as configured again; 0: it is.
	Left(rule string) time.Duration
}

// AdminToken allows actions on the admin listener: a secret, sent as a bearer token.
type AdminToken struct {
	Name   string // logged with changes; "": only the address is
	Secret string
	Scope  AdminScope
}

// AdminScope is what a token allows. If there is a token with [ScopeRead], reading needs a token too, of
// either scope.
type AdminScope uint8

// The scopes of tokens.
const (
	ScopeAct  AdminScope = iota // changing and reading
	ScopeRead                   // reading
)

// Config configures a [Server]. Limiter, Engine, Identity and Listeners are required. The zero value of any
// other field means its default. All functions are called concurrently.
type Config struct {
	// Limiter, Engine and Identity decide. Identity also says which headers of a trusted proxy name the
	// request to decide on.
	Limiter  *fastlimit.Limiter
	Engine   *policy.Engine
	Identity *policy.Identity

	// Tiers are the live tiers that Engine charges, if [policy.Engine.WithLive] made it; see
	// [Server.SetEngine].
	Tiers []*fastlimit.Rule

	// Listeners take traffic. At least one.
	Listeners []Listener

	// Admin is the address for health, metrics and profiles: host:port, or unix: and the path of a socket for
	// this user only (mode 0600), or systemd: as in a [Listener]. Empty means none. Keep it away from
	// clients: anybody who reaches it may read everything.
	Admin string

	// AdminTokens are the tokens, one of which is needed for changes, where Admin is neither on loopback nor
	// a socket. Without tokens nobody may make changes there.
	AdminTokens []AdminToken

	// Overrides answers /v1/overrides; see [Server.SetEngine]. nil: there are none.
	Overrides Overrides

	// Bans answers /v1/bans; see [Server.SetBans]. nil: there are none.
	Bans Bans

	// Rules answers /v1/rules; see [Server.SetRules]. nil: no rule can be changed.
	Rules LiveRules

	// Reload answers POST /v1/reload; by names the caller. Errors are like those of Overrides, with one
	// problem per line. nil: it answers 404.
	Reload func(ctx context.Context, by string) error

	// Changes answers /v1/changes with up to n changes made to the node, as a document that encodes as JSON.
	// nil: it answers 404.
	Changes func(n int) any

	// ListFiles is what /v1/info shows of files with allow and deny lists; see
	// [Server.SetLists]. nil: there are none.
	ListFiles func() []ListFileInfo

	// BadRequests is what to do with requests that cannot be read, besides refusing them.
	BadRequests BadRequests
	// DecideAPI serves POST /v1/decide on the traffic listeners too. Anybody who reaches them may then charge
	// any client's buckets.
	DecideAPI bool

	// Upstream makes the server a reverse proxy, which passes admitted requests on. nil: it answers them
	// itself, as a decision service. DecideAPI must be false with it.
	Upstream *Upstream

	// Alive is called once a second while the server runs, by the goroutine that moves its clocks, for a
	// watchdog. nil: no watchdog.
	Alive func()

	// Kernel drops the packets of banned clients. nil: their requests are denied like those of others.
	Kernel  *Kernel
	machine func() (expel.Machine, error) // reads it; replaced by tests

	// Connections bounds what clients' connections may hold and how long they may take, Drain how they end.
	Connections Connections
	Drain       Drain

	// Logger receives all logs. nil means slog.Default().
	Logger *slog.Logger

	// DenialLogs is the number of clients whose denials are logged per second, one
	// line each; the rest is only counted. At most 100, the default that 0 stands
	// for; negative means none.
	DenialLogs int

	// AccessLog is a line of JSON for each request. New opens its file and starts a goroutine for it, which
	// ends with Serve.
	AccessLog AccessLog

	// Ready fails /readyz while it returns an error, which the reply shows.
	// nil: the server is ready while it serves.
	Ready func() error

	// Collectors are shown on /metrics in addition to the server's own.
	Collectors []prometheus.Collector

	// TopTalkers answers GET /v1/top: set by a cluster, which knows the top talkers of all nodes and ends the
	// epochs of the Limiter's tables. nil: the server does both for this node, if the Limiter tracks top
	// talkers.
	TopTalkers TopTalkers

	// Version and the fields below describe the program around the server on /v1/info; Version and LostLogs
	// on /metrics too.
	Version  string             // empty means "unknown"
	GoMemory *GoMemory          // limits of Go's garbage collector; nil: not shown
	Store    func() StoreInfo   // the store that nodes share; nil: there is none
	Cluster  func() ClusterInfo // the other nodes; nil: this one is alone
	LostLogs func() uint64      // lines that the Logger could not write; nil: not counted
}

// AccessLog is where the line for each answered request goes. The zero value means nowhere.
type AccessLog struct {
	// Queries makes lines include the queries of requests and referers, in which applications put secrets.
	Queries bool

	// File is appended to, and reopened by [Server.ReopenAccessLog]. "-" is standard output.
	File string
}

// Connections bounds the connections of clients. Zero values mean the defaults.
type Connections struct {
	// Max bounds the connections of all listeners together. If there are too
	// many, denied ones are closed first, then those idle longest. 0 means 16384.
	// New lowers it to what the limit on open files allows. A connection costs
	// about [ConnectionBytes].
	Max int
	// MaxPerClient bounds the connections of one IPv4 address or IPv6 /64, except
	// trusted proxies. Above it that client's longest idle one is closed. 0 means 1024.
	MaxPerClient int
	// MaxStreamsPerClient bounds the requests that such a client has in progress over HTTP/2, on all its
	// connections. Further ones get a 503. 0 means 1024.
	MaxStreamsPerClient int

	// HeaderBytes bounds request line and headers; above it the answer is 431. 0 means 32 KiB. A connection
	// has a buffer of 4 KiB; it has one of this size too while a longer head arrives and is answered.
	HeaderBytes int
	// BodyBytes is how much of a body is read and dropped to keep the connection. A request with a longer
	// body is decided too, but its connection ends. 0 means 64 KiB. /v1/decide takes 1 MiB.
	BodyBytes int

	// HeaderTimeout is the time a client has to send the head of a request, and
	// again for a body. 0 means 5 s. This and the next two are enforced up to
	// 25 % late. Lower sheds slow clients sooner; too low drops clients on bad lines.
	HeaderTimeout time.Duration
	// IdleTimeout is how long a connection may wait for its next request. 0
	// means 60 s. Keep it above the keep-alive time of the proxy in front,
	// else the proxy sends into closing connections.
	IdleTimeout time.Duration
	// WriteTimeout is how long a response may make no progress, including the time to decide. 0 means 10 s.
	WriteTimeout time.Duration
}

// Drain is how a server stops.
type Drain struct {
	// Delay is the time between /readyz answering 503 and the listeners closing: what a load balancer needs
	// to notice. 0 means none.
	Delay time.Duration
	// Timeout bounds the wait for requests in flight. 0 means 10 s.
	Timeout time.Duration
}

// ReusesPort reports whether this process may replace another one on the same ports.
func (c *Config) ReusesPort() bool {
	return slices.ContainsFunc(c.Listeners, func(l Listener) bool { return l.ReusePort })
}

// withDefaults returns the configuration with defaults, and everything that is wrong with it: each a
// [field.Error].
func (c Config) withDefaults() (Config, error) {
	var p problems
	p.require(c.Limiter != nil, "Limiter", "make one with fastlimit.New")
	p.require(c.Engine != nil, "Engine", "make one with policy.New")
	p.require(c.Identity != nil, "Identity", "make one with policy.NewIdentity")
	p.require(len(c.Listeners) > 0, "Listeners", "name at least one address, for example 127.0.0.1:8080")
	c.Listeners = slices.Clone(c.Listeners)
	for i := range c.Listeners {
		c.Listeners[i].withDefaults()
		p.of(fmt.Sprintf("Listeners[%d].", i), c.Listeners[i].Validate())
	}
	if path, ok := unixsocket.Path(c.Admin); ok {
		p.path("Admin", path)
	}
	p.socket("Admin", c.Admin)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Version = cmp.Or(c.Version, "unknown")
	if c.machine == nil {
		c.machine = expel.ThisMachine
	}
	if c.Kernel != nil {
		if c.ReusesPort() {
			p.add("Kernel", "two processes cannot drop for one port, and ReusePort permits two", "remove one of the two")
		}
		p.require(c.Kernel.Open != nil, "Kernel.Open", "return what feed.Open has")
	}
	c.DenialLogs = cmp.Or(c.DenialLogs, logs.MaxDenialLines)
	if c.DenialLogs > logs.MaxDenialLines {
		p.add("DenialLogs", fmt.Sprintf("%d is too large", c.DenialLogs), fmt.Sprintf("want at most %d", logs.MaxDenialLines))
	}
	c.Connections.check(&p)
	c.Drain.check(&p)
	if c.Upstream != nil {
		p.of("Upstream.", c.Upstream.Validate())
		u := *c.Upstream // the caller's must not change
		u.withDefaults(new(problems))
		c.Upstream = &u
		if c.DecideAPI {
			p.add("DecideAPI", "is for a decision service", "set it to false: with an Upstream, POST /v1/decide is on Admin")
		}
	}
	return c, errors.Join(p...)
}

func (c *Connections) check(p *problems) {
	p.atLeast("Connections.Max", &c.Max, 1, defaultMaxConnections)
	p.atLeast("Connections.MaxPerClient", &c.MaxPerClient, 1, 1024)
	p.atLeast("Connections.MaxStreamsPerClient", &c.MaxStreamsPerClient, 1, 1024)
	p.atLeast("Connections.HeaderBytes", &c.HeaderBytes, 512, 32<<10)
	p.atLeast("Connections.BodyBytes", &c.BodyBytes, 1, 64<<10)
	// Without a timeout a slow client could hold its connection forever, so there is no way to have none.
	p.positive("Connections.HeaderTimeout", &c.HeaderTimeout, 5*time.Second)
	p.positive("Connections.IdleTimeout", &c.IdleTimeout, time.Minute)
	p.positive("Connections.WriteTimeout", &c.WriteTimeout, 10*time.Second)
}

func (d *Drain) check(p *problems) {
	p.positive("Drain.Delay", &d.Delay, 0)
	p.positive("Drain.Timeout", &d.Timeout, 10*time.Second)
}

// problems are the problems of a Config.
type problems []error

func (p *problems) add(name, problem, fix string) {
	*p = append(*p, &field.Error{Package: "fastlimit/server", Field: name, Problem: problem, Fix: fix})
}

// of adds the problems of a part, with its name before those of its fields.
func (p *problems) of(name string, err error) {
	for _, e := range field.All(err) {
		p.add(name+e.Field, e.Problem, e.Fix)
	}
}

func (p *problems) require(set bool, name, fix string) {
	if !set {
		p.add(name, "is missing", fix)
	}
}

// atLeast fills in the default for 0, and requires at least least.
func (p *problems) atLeast(name string, n *int, least, byDefault int) {
	if *n = cmp.Or(*n, byDefault); *n < least {
		p.add(name, fmt.Sprintf("%d is too small", *n), fmt.Sprintf("want 0 for the default of %d, or at least %d", byDefault, least))
	}
}

// positive fills in the default for 0, and requires a time that is not negative.
func (p *problems) positive(name string, d *time.Duration, byDefault time.Duration) {
	if *d = cmp.Or(*d, byDefault); *d < 0 {
		p.add(name, fmt.Sprintf("%v is negative", *d), fmt.Sprintf("want 0 for the default of %v, or more", byDefault))
	}
}
