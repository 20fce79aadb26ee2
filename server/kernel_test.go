package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/ban/feed"
	"github.com/fastlimit/fastlimit/internal/testkit/rawhttp"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/expel"
)

// A ban is sent to the kernel, and none of the client's connections is left: not one that is idle, one with
// half a head, one that is accepted later. Others are served. Once an operator has ended the ban, the client
// is too.
func TestAtABan(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(c net.Conn) int{
		"simple requests": ask,
		"others": func(c net.Conn) int {
			return rawhttp.AskText(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\na")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := new(memory)
			s := start(t, floodRules(), withKernel(t, m))
			n := dialFrom(t, beside, s.addr)
			if got := ask(n); got != 200 {
				t.Fatalf("the neighbour got %d", got)
			}
			idle, half, flood := dialFrom(t, attacker, s.addr), dialFrom(t, attacker, s.addr), dialFrom(t, attacker, s.addr)
			_, _ = io.WriteString(half, "GET / HT")
			eventually(t, func() bool { return s.conns.Open() == 4 })
			for range untilBan {
				if got := ask(flood); got == 0 {
					break // the answer may get through or not
				}
			}
			eventually(t, func() bool { return m.all() == "["+attacker+"/32]" })
			rawhttp.NoSocketSoon(t, s.addr, attacker)
			for what, c := range map[string]net.Conn{"idle": idle, "half a head": half} {
				if !rawhttp.WasReset(c) {
					t.Errorf("%s: not reset", what)
				}
			}
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(attacker)}}
			if c, err := d.DialContext(t.Context(), "tcp", s.addr); err == nil { // a kernel would not let it
				defer c.Close()
				if !rawhttp.WasReset(c) {
					t.Error("a later connection is not reset")
				}
			}
			if got := ask(n); got != 200 {
				t.Errorf("the neighbour got %d", got)
			}
			if !s.KernelHolds(netip.MustParseAddr(attacker)) || s.KernelHolds(netip.MustParseAddr(beside)) {
				t.Error("the wrong ones are held")
			}
			st := s.kernelStats()
			if st.Added < 1 || st.Held != 1 || st.Resets < 4 {
				t.Errorf("%+v", st)
			}

			rule, _ := s.config().Limiter.Rule("per-ip")
			key := rule.AddrKey(netip.MustParseAddr(attacker))
			if !rule.Unban(key) {
				t.Fatal("was not banned")
			}
			s.KernelForgets(netip.MustParsePrefix("127.0.0.0/29"))
			eventually(t, func() bool { return m.all() == "[]" })
			if got := ask(dialFrom(t, attacker, s.addr)); got != 429 {
				t.Errorf("after the ban: %d", got)
			}
		})
	}
}

// A client of HTTP/2 loses its connection, with all its streams.
func TestAtABanOverHTTP2(t *testing.T) {
	t.Parallel()
	m := new(memory)
	s := start(t, floodRules(), withKernel(t, m), withTLS(t))
	c := httpsClient(t, true)
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(attacker)}}
	c.Transport.(*http.Transport).DialContext = dialer.DialContext
	for i := range untilBan {
		resp, err := c.Get("https://" + s.addr)
		if err != nil {
			break // net/http asks again on another connection first
		}
		if resp.Body.Close(); resp.ProtoMajor != 2 {
			t.Fatalf("request %d by %s", i, resp.Proto)
		}
	}
	eventually(t, func() bool { return m.all() == "["+attacker+"/32]" })
	rawhttp.NoSocketSoon(t, s.addr, attacker)
	eventually(t, func() bool { return s.conns.Open() == 0 })
}

// Who might be somebody else is never given to the kernel: such clients get a 429 for each
// request, on connections that they keep.
func TestNeverGivenToTheKernel(t *testing.T) {
	t.Parallel()
	prefixes := func(all ...string) (list []netip.Prefix) {
		for _, p := range all {
			list = append(list, netip.MustParsePrefix(p))
		}
		return list
	}
	machine := func(m expel.Machine) func(*Config) {
		return func(c *Config) { c.machine = func() (expel.Machine, error) { return m, nil } }
	}
	grouped := func(set *policy.Settings) { set.Rules[0].Limit.IPv4Prefix = 28 }
	for _, tc := range []struct {
		reason string
		set    func(*policy.Settings)
		change func(*Config)
		first  string // what the connection begins with
		fields string
	}{
		{reason: "header", set: func(set *policy.Settings) { set.TrustedProxies = prefixes(attacker + "/32") }, fields: "X-Forwarded-For: 127.0.0.9\r\n"},
		{reason: "header", set: func(set *policy.Settings) { set.TrustedProxies = prefixes(attacker + "/32") }}, // it names nobody, so the ban is its own
		{reason: "proxy_protocol", change: func(c *Config) { c.Listeners[0].ProxyProtocol = prefixes(attacker + "/32") }, first: "PROXY TCP4 127.0.0.9 127.0.0.1 1 1\r\n"},
		{reason: "proxy_protocol", change: func(c *Config) { c.Listeners[0].ProxyProtocol = prefixes(attacker + "/32") }, first: "PROXY UNKNOWN\r\n"},
		{reason: "key", set: func(set *policy.Settings) {
			set.Rules[0].Key = append(set.Rules[0].Key, policy.KeyPart{Kind: policy.KeyMethod})
		}},
		{reason: "proxy", fields: "X-Forwarded-For: 192.0.2.1\r\n"},
		{reason: "proxy", fields: "Forwarded: for=192.0.2.1\r\n"},
		{reason: "loopback", change: func(c *Config) { c.machine = expel.ThisMachine }},
		{reason: "own", change: machine(expel.Machine{Own: []netip.Addr{netip.MustParseAddr(attacker)}})},
		{reason: "own", set: grouped}, // 127.0.0.1, which the client has connected to, is in its prefix
		{reason: "gateway", change: machine(expel.Machine{Gateways: []netip.Addr{netip.MustParseAddr(attacker)}})},
		{reason: "allow", set: func(set *policy.Settings) { set.Rules[0].Limit.IPv4Prefix = 30; set.Allow = prefixes("127.0.0.6/32") }},
		{reason: "trusted", set: func(set *policy.Settings) {
			set.Rules[0].Limit.IPv4Prefix = 30
			set.TrustedProxies = prefixes("127.0.0.6/32")
		}},
		{reason: "balancer", set: func(set *policy.Settings) { set.Rules[0].Limit.IPv4Prefix = 30 }, change: func(c *Config) { c.Listeners[0].ProxyProtocol = prefixes("127.0.0.6/32") }},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			t.Parallel()
			m := new(memory)
			set := floodRules()
			if tc.set != nil {
				tc.set(&set)
			}
			s := start(t, set, withKernel(t, m), func(c *Config) {
				if tc.change != nil {
					tc.change(c)
				}
			})
			c := dialFrom(t, attacker, s.addr)
			_, _ = io.WriteString(c, tc.first)
			for i := range 2 * untilBan {
				want := 429
				if i < 3 {
					want = 200
				}
				if got := rawhttp.AskText(c, "GET / HTTP/1.1\r\nHost: a\r\n"+tc.fields+"\r\n"); got != want {
					t.Fatalf("request %d: %d", i, got)
				}
			}
			refused := s.expel.Refused()
			for reason, n := range refused {
				if want := uint64(untilBan + 1); reason == tc.reason && n != want || reason != tc.reason && n != 0 {
					t.Errorf("%d for reason %s", n, reason)
				}
			}
			if st := s.kernelStats(); m.all() != "[]" || st.Added != 0 || st.Resets != 0 {
				t.Errorf("%s %+v", m.all(), st)
			}
		})
	}
}

// In shadow mode, and while the kernel fails, banned clients keep their connections and get their answers. (A
// request that stalls on its way to the feed prolongs its ban there, which counts as added once more.)
func TestKernelThatDropsNothing(t *testing.T) {
	t.Parallel()
	for _, shadow := range []bool{true, false} {
		m := new(memory)
		s := start(t, floodRules(), withKernel(t, m, func(c *feed.Config) { c.Shadow = shadow }))
		if !shadow {
			m.fail(errors.New("no kernel today"))
			eventually(t, func() bool { return !s.feed.Load().Stats().Up })
		}
		c, status := flood(t, s.addr, 3*untilBan)
		st := s.kernelStats()
		if status != 429 || st.Resets != 0 || st.Held != 1 || st.Added < 1 || st.Shadow != shadow || st.Up || s.KernelHolds(netip.MustParseAddr(attacker)) {
			t.Errorf("shadow %v: %d, %+v", shadow, status, st)
		}
		if !shadow { // it gets well
			m.fail(nil)
			eventually(t, func() bool { return s.feed.Load().Stats().Up })
			if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil || !rawhttp.WasReset(c) {
				t.Errorf("not reset: %v", err)
			}
			rawhttp.NoSocketSoon(t, s.addr, attacker)
		}
	}
}

// An operator's ban is sent whole as soon as somebody in it asks, or only for that client if the whole is not
// allowed. An address of an IPv6 /64 does not cost the others theirs.
func TestOperatorsBansInTheKernel(t *testing.T) {
	t.Parallel()
	hour := time.Now().Add(time.Hour)
	for _, tc := range []struct {
		banned, allowed, want string
	}{
		{banned: "127.0.0.4/30", want: "[127.0.0.4/30]"},
		{banned: attacker + "/32", want: "[" + attacker + "/32]"},
		{banned: "127.0.0.4/30", allowed: beside + "/32", want: "[" + attacker + "/32]"},
		{banned: "127.0.0.4/30", allowed: "127.0.0.0/8", want: "[127.0.0.4/30]"}, // the longer one decides
	} {
		m := new(memory)
		set := perIP()
		if tc.allowed != "" {
			set.Allow = []netip.Prefix{netip.MustParsePrefix(tc.allowed)}
		}
		s := start(t, set, withKernel(t, m))
		s.SetBans((*policy.Bans)(nil).With(netip.MustParsePrefix(tc.banned), hour))
		ask(dialFrom(t, attacker, s.addr))
		eventually(t, func() bool { return m.all() == tc.want })
		s.expel.Reread()
		if got := fmt.Sprint(s.feed.Load().Stats().Held); got != "1" {
			t.Errorf("%+v: %s held after another look", tc, got)
		}
	}
}

// An address that is allowed from now on is not dropped any longer.
func TestAllowedFromNowOn(t *testing.T) {
	t.Parallel()
	m := new(memory)
	s := start(t, floodRules(), withKernel(t, m))
	flood(t, s.addr, untilBan)
	eventually(t, func() bool { return m.all() != "[]" })
	l, err := policy.NewLists([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/29")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.SetLists(l)
	if s.KernelHolds(netip.MustParseAddr(attacker)) {
		t.Error("held")
	}
	if got := ask(dialFrom(t, attacker, s.addr)); got != 200 {
		t.Errorf("got %d", got)
	}
	eventually(t, func() bool { return m.all() == "[]" })
}

// Without a kernel the server does not start, and leaves no port bound; without a port to
// drop packets to it starts, and says so.
func TestKernelThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	m := &memory{broken: errors.New("grant CAP_NET_ADMIN")}
	c := newConfig(t, floodRules())
	withKernel(t, m)(&c)
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Serve(t.Context())
	if err == nil || !strings.Contains(err.Error(), "grant CAP_NET_ADMIN") {
		t.Errorf("%v", err)
	}
	if s.Addrs() != nil || s.AdminAddr() != nil {
		t.Error("still bound")
	}
	m.broken = nil
	c.machine = func() (expel.Machine, error) { return expel.Machine{}, errors.New("no addresses") }
	if s, err = New(c); err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err == nil || !strings.Contains(err.Error(), "no addresses") {
		t.Errorf("%v", err)
	}

	var log bytes.Buffer
	c.Listeners = []Listener{{Address: "unix:" + t.TempDir() + "/s"}}
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	if s, err = New(c); err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Serve(ctx); err != nil || !strings.Contains(log.String(), "no listener has a TCP port") {
		t.Errorf("%v %s", err, log.String())
	}
	c.Kernel.Open = nil
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "Kernel.Open") {
		t.Errorf("%v", err)
	}
}

func metricsOf(t *testing.T, s *running) string {
	return string(readAll(t, get(t, "http://"+s.admin+"/metrics")))
}

// Operators see the kernel in /v1/info and /metrics.
func TestKernelIsShown(t *testing.T) {
	t.Parallel()
	s := start(t, floodRules(), withKernel(t, new(memory)))
	eventually(t, func() bool { return s.kernelStats().Packets == 7 })
	var info struct{ Kernel map[string]any }
	if err := json.Unmarshal(readAll(t, get(t, "http://"+s.admin+"/v1/info")), &info); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"table": "t", "mode": "enforce", "up": true, "bans": 0.0, "max_bans": 65536.0}
	if !maps.Equal(info.Kernel, want) {
		t.Errorf("%v, want %v", info.Kernel, want)
	}
	all := metricsOf(t, s)
	for _, line := range []string{
		"fastlimit_kernel_up 1", "fastlimit_kernel_dropped_packets_total 7", "fastlimit_kernel_dropped_bytes_total 70",
		`fastlimit_kernel_refused_total{reason="gateway"} 0`, `fastlimit_kernel_refused_total{reason="full"} 0`, `fastlimit_kernel_errors_total{class="denied"} 0`,
	} {
		if !strings.Contains(all, line+"\n") {
			t.Errorf("%q is missing in\n%s", line, all)
		}
	}
	if without := metricsOf(t, start(t, perIP())); strings.Contains(without, "\nfastlimit_kernel") {
		t.Error("metrics without a kernel")
	}
}
