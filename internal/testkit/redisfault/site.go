//go:build linux

// Package redisfault breaks a real Redis, and the line to it, in every way that
// can be made on one machine without privileges: a table of faults, each of
// which is struck and healed under whatever load its user runs. Tests assert
// on what happens meanwhile, `go run ./bench redis --faults` measures it.
package redisfault

import (
	"strings"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/faultproxy"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// Fault is one way in which Redis misbehaves.
type Fault struct {
	Name string

	// Class of the errors that must show up, as the store calls it; "" where
	// none need to.
	Class string
	Trips bool // the circuit breaker must open
	Lost  bool // the server forgets what it has granted

	// Process is set where the whole process suffers, so that nothing else may
	// run in it.
	Process bool

	args   []string    // of the server
	setup  func(*Site) // before anybody connects
	strike func(*Site)
	heal   func(*Site)
	direct bool // without the proxy, which may lose the server's last reply
	byName bool // the URL has a name, see [UseNames]
}

// Site is a server, a faulty connection to it, and the fault to inject. It is not
// safe for concurrent use.
type Site struct {
	Fault *Fault

	t      testkit.T
	server *redistest.Server
	admin  *redistest.Session
	proxy  *faultproxy.Proxy
	name   string
	undo   func()
}

// New starts a server for the fault, and stops it when the test ends.
func New(t testkit.T, f *Fault) *Site {
	t.Helper()
	s := &Site{Fault: f, t: t, server: redistest.Start(t, f.args...), undo: func() {}}
	s.admin = s.server.Session()
	s.proxy = faultproxy.New(t, s.server.Addr, 7)
	if f.byName {
		s.name = names.add(t)
	}
	if f.setup != nil {
		f.setup(s)
	}
	return s
}

// Addr is where to connect to.
func (s *Site) Addr() string {
	addr := s.proxy.Addr()
	if s.Fault.direct {
		addr = s.server.Addr
	}
	if s.name != "" {
		_, port, _ := strings.Cut(addr, ":")
		addr = s.name + ":" + port
	}
	return addr
}

// Strike begins the fault.
func (s *Site) Strike() { s.t.Helper(); s.Fault.strike(s) }

// Heal ends it.
func (s *Site) Heal() {
	s.t.Helper()
	s.undo()
	s.undo = func() {}
	if s.Fault.heal != nil {
		s.Fault.heal(s)
	}
}

// Get returns the value of a key, "" where there is none.
func (s *Site) Get(key string) string { s.t.Helper(); return s.server.Do("GET", key) }

// The parts of faults.

func line(f faultproxy.Fault) func(*Site) { return func(s *Site) { s.proxy.Set(s.t, f) } }

func command(args ...string) func(*Site) { return func(s *Site) { s.admin.Do(args...) } }

func cut(s *Site) { s.proxy.Cut() }

func both(f ...func(*Site)) func(*Site) {
	return func(s *Site) {
		for _, g := range f {
			g(s)
		}
	}
}

// dropClients closes all connections but that of the command.
var dropClients = command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
