//go:build linux

package redisfault

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/leaks"
	"github.com/miekg/dns"
)

func TestMain(m *testing.M) {
	UseNames()
	os.Exit(leaks.ExitCode(m.Run()))
}

func TestNames(t *testing.T) {
	t.Parallel()
	name := names.add(t)
	for _, want := range []struct {
		resolution
		addr              string
		missing, timeouts bool
	}{
		{known, "127.0.0.1", false, false},
		{resolution{127, 0, 0, 2}, "127.0.0.2", false, false},
		{unknown, "", true, false},
		{broken, "", false, false},
		{silent, "", false, true},
	} {
		names.set(name, want.resolution)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		addrs, err := net.DefaultResolver.LookupHost(ctx, name)
		cancel()
		if want.addr != "" {
			if err != nil || len(addrs) != 1 || addrs[0] != want.addr {
				t.Errorf("%v: %v, %v; want %s", want.resolution, addrs, err, want.addr)
			}
			continue
		}
		var failed *net.DNSError
		if !errors.As(err, &failed) || failed.IsNotFound != want.missing || failed.IsTimeout != want.timeouts {
			t.Errorf("%v: %v, %#v", want.resolution, addrs, err)
		}
	}
	if addrs, err := net.LookupHost("example.com"); err == nil {
		t.Errorf("a name from outside: %v", addrs)
	}
}

// No query makes the name server panic.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("ID\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01"))
	f.Add([]byte("ID\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\xffa"))
	f.Fuzz(func(t *testing.T, query []byte) {
		var m dns.Msg
		if m.Unpack(query) != nil {
			return // never seen by the name server
		}
		if a := names.answer(&m); a != nil && a.Id != m.Id {
			t.Errorf("%v answers %v", a, m)
		}
	})
}

func TestFaultsAreDistinct(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, f := range All() {
		if seen[f.Name] || f.strike == nil || f.heal == nil && !f.Process && !f.byName {
			t.Errorf("%q: seen before, or cannot be struck or healed", f.Name)
		}
		seen[f.Name] = true
	}
}
