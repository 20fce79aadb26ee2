package server

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/ban"
	"github.com/fastlimit/fastlimit/ban/feed"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/expel"
)

// memory is a kernel in memory.
type memory struct {
	mu     sync.Mutex
	held   map[netip.Prefix]time.Duration
	broken error // of all calls
}

func (m *memory) Open() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = map[netip.Prefix]time.Duration{}
	return m.broken
}

func (m *memory) Apply(changes []feed.Change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range changes {
		if m.held[c.Prefix] = c.For; c.For == 0 {
			delete(m.held, c.Prefix)
		}
	}
	return m.broken
}

func (m *memory) Counters() (packets, size uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return 7, 70, m.broken
}

func (m *memory) Close() error { return nil }

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = err
}

// all are the prefixes that are dropped.
func (m *memory) all() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprint(slices.SortedFunc(maps.Keys(m.held), netip.Prefix.Compare))
}

// withKernel has a server feed a kernel in memory. Nobody is on loopback for it.
func withKernel(t testing.TB, m *memory, change ...func(*feed.Config)) func(*Config) {
	return func(c *Config) {
		c.machine = func() (expel.Machine, error) { return expel.Machine{}, nil }
		c.Kernel = &Kernel{Table: "t", Open: func(listens []netip.AddrPort) (*feed.Feed, error) {
			if len(listens) == 0 {
				t.Error("opened without addresses")
			}
			fc := feed.Config{Writer: m, Logger: c.Logger}
			for _, f := range change {
				f(&fc)
			}
			f, err := feed.Open(fc)
			if err == nil {
				t.Cleanup(func() { f.Close() })
			}
			return f, err
		}}
	}
}

// floodRules is perIP with a ban after three denials.
func floodRules() policy.Settings {
	set := perIP()
	set.Rules[0].Limit.Rate = fastlimit.Rate{N: 1, Per: time.Hour}
	set.Rules[0].Limit.Ban = ban.Policy{After: 3, Within: time.Minute, For: time.Hour}
	return set
}

// untilBan is how many requests a client of floodRules has to make, the last of which begins the ban.
const untilBan = 6

const attacker, beside = "127.0.0.5", "127.0.0.6"

// flood makes requests on one connection, and returns the last status.
func flood(t testing.TB, addr string, n int) (c net.Conn, status int) {
	t.Helper()
	c = dialFrom(t, attacker, addr)
	for range n {
		status = ask(c)
	}
	return c, status
}
