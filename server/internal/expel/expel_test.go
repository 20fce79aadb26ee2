package expel

import (
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/ban/feed"
	"github.com/fastlimit/fastlimit/server/internal/decide"
)

// A ban that was ended while it was being sent to the kernel leaves nothing there; an operator's is never
// wider than what was banned.
func TestGive(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, operator string
		ended          bool
		want           string // that is held
	}{
		{name: "one address of a /64", operator: "2001:db8::7/128", want: "2001:db8::7/128"},
		{name: "the /64", operator: "2001:db8::/64", want: "2001:db8::/64"},
		{name: "a /48 around it", operator: "2001:db8::/48", want: "2001:db8::/48"},
		{name: "ended meanwhile", operator: "2001:db8::/48", ended: true},
		{name: "none"},
	} {
		f, err := feed.Open(feed.Config{Shadow: true})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		e, err := New(Config{
			Feed: f, Machine: func() (Machine, error) { return Machine{}, nil },
			AllowsSome: func(netip.Prefix) bool { return false }, TrustsSome: func(netip.Prefix) bool { return false },
			OperatorsBan: func(netip.Addr) (netip.Prefix, bool) {
				p, err := netip.ParsePrefix(tc.operator)
				return p, err == nil
			},
			StillBanned: func(decide.Banned) bool { return !tc.ended },
			Reset:       func(netip.Prefix) int { t.Error("reset in shadow mode"); return 0 },
		})
		if err != nil {
			t.Fatal(err)
		}
		e.give(decide.Banned{Client: netip.MustParseAddr("2001:db8::7"), Prefix: netip.MustParsePrefix("2001:db8::/64"), Left: time.Hour})
		got := ""
		f.RemoveFunc(func(p netip.Prefix) bool { got += p.String(); return false })
		if got != tc.want {
			t.Errorf("%s: %q is held, want %q", tc.name, got, tc.want)
		}
	}
}

// While the machine's addresses cannot be read again, those known before are spared, and one line says so.
func TestRereadFails(t *testing.T) {
	t.Parallel()
	f, err := feed.Open(feed.Config{Shadow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var failed error
	var log strings.Builder
	own := netip.MustParseAddr("192.0.2.1")
	no := func(netip.Prefix) bool { return false }
	e, err := New(Config{
		Feed: f, Log: slog.New(slog.NewTextHandler(&log, nil)), AllowsSome: no, TrustsSome: no,
		Machine: func() (Machine, error) {
			if failed != nil {
				return Machine{}, failed
			}
			return Machine{Own: []netip.Addr{own}}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	spared := func() bool { return e.Spares(netip.PrefixFrom(own, 32)) != NotRefused }
	lines := func() int { return strings.Count(log.String(), "cannot be read again") }
	for i, why := range []error{nil, errors.New("out of memory"), errors.New("out of memory"), nil, errors.New("out of memory")} {
		failed = why
		e.Reread()
		if want := []int{0, 1, 1, 1, 2}[i]; !spared() || lines() != want {
			t.Errorf("reading %d: spared %t, %d lines, want %d", i, spared(), lines(), want)
		}
	}
}
