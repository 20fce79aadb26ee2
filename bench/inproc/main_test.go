package inproc

import (
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bench/oracle"
)

// TestMain lets the test binary be its own measuring process.
func TestMain(m *testing.M) {
	RunChild(func([]string) []Contender { return testContenders() })
	os.Exit(m.Run())
}

// testContenders are bad in one way each; children know them.
func testContenders() []Contender {
	return []Contender{
		contender("fails", nil, errors.New("no such luck")),
		contender("panics", broken(func(netip.Addr, time.Duration) bool { panic("out of luck") }), nil),
		contender("grows", &growing{}, nil),
		{Name: "denies", Setup: "test", New: func(oracle.Rule) (Limiter, error) { return new(denying), nil }},
		{Name: "forgets", Setup: "test", New: func(r oracle.Rule) (Limiter, error) { return newForgetful(r), nil }},
	}
}

// growing keeps 4 KiB of every request.
type growing struct{ kept [][]byte }

func (l *growing) Allow(netip.Addr, time.Duration) bool {
	page := make([]byte, 4<<10)
	page[0] = 1
	l.kept = append(l.kept, page)
	return true
}

// denying denies every tenth request.
type denying struct{ n int }

func (l *denying) Allow(netip.Addr, time.Duration) bool {
	l.n++
	return l.n%10 > 0
}

// forgetful is the reference that forgets everybody after a few thousand
// requests of others.
type forgetful struct {
	rule  oracle.Rule
	exact Limiter
	n     int
}

func newForgetful(r oracle.Rule) *forgetful {
	l := &forgetful{rule: r}
	l.exact, _ = Reference().New(r)
	return l
}

func (l *forgetful) Allow(addr netip.Addr, now time.Duration) bool {
	if l.n++; l.n%5000 == 0 {
		l.exact, _ = Reference().New(l.rule)
	}
	return l.exact.Allow(addr, now)
}
