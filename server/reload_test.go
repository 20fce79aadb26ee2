package server

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
	"github.com/fastlimit/fastlimit/policy"
)

// other is a configuration as the running one, but for a change.
func (r *running) other(t testing.TB, set policy.Settings, change ...func(*Config)) Config {
	t.Helper()
	c := newConfig(t, set)
	c.Logger, c.Listeners, c.Admin = r.config().Logger, slices.Clone(r.config().Listeners), r.config().Admin
	for _, f := range change {
		f(&c)
	}
	return c
}

func (r *running) reload(t testing.TB, set policy.Settings, change ...func(*Config)) {
	t.Helper()
	if err := r.Reload(r.other(t, set, change...)); err != nil {
		t.Fatal(err)
	}
}

// askOver sends a request over a connection that stays open.
func askOver(t testing.TB, c net.Conn, path string) *http.Response {
	t.Helper()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	readAll(t, resp)
	return resp
}

// ended waits until the server has closed a connection.
func ended(t testing.TB, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read %d, %v: want the end of the connection", n, err)
	} else if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		t.Error("the connection stays open")
	}
}

// Rules, answers and listeners change, the connections of a listener that stays do not.
func TestReload(t *testing.T) {
	t.Parallel()
	s := start(t, perIP(), func(c *Config) {
		c.Listeners = append(c.Listeners, Listener{Address: "127.0.0.1:0", DenyStatus: 403})
	})
	first := s.Addrs()
	kept, leaving := dial(t, first[0].String()), dial(t, first[1].String())
	defer kept.Close()
	defer leaving.Close()
	for range 3 {
		askOver(t, kept, "/")
	}
	if a, b := askOver(t, kept, "/"), askOver(t, leaving, "/"); a.StatusCode != 429 || b.StatusCode != 403 {
		t.Fatalf("%d, %d", a.StatusCode, b.StatusCode)
	}
	denied := s.decide.Requests().Denied

	loose := perIP()
	loose.Rules[0].Limit.Burst = 10
	s.reload(t, loose, func(c *Config) {
		c.Listeners = []Listener{{Address: "127.0.0.1:0", DenyStatus: 420}, {Address: testkit.FreeAddr(t), DenyStatus: 444}}
	})
	next := s.Addrs()
	if len(next) != 2 || next[0].String() != first[0].String() {
		t.Fatalf("listens on %v, before on %v", next, first)
	}
	ended(t, leaving)
	eventually(t, func() bool { _, err := net.Dial("tcp", first[1].String()); return err != nil })
	added := dial(t, next[1].String())
	defer added.Close()
	for range 10 {
		if resp := askOver(t, kept, "/"); resp.StatusCode != 200 {
			t.Fatalf("by the looser limit: %d", resp.StatusCode)
		}
	}
	if a, b := askOver(t, kept, "/"), askOver(t, added, "/"); a.StatusCode != 420 || b.StatusCode != 444 {
		t.Errorf("%d, %d: want those of the listeners", a.StatusCode, b.StatusCode)
	}
	if n := s.decide.Requests().Denied; n != denied+2 {
		t.Errorf("%d denials are counted, before there were %d", n, denied)
	}
	// One that comes back has its place again.
	s.reload(t, loose, func(c *Config) {
		c.Listeners = []Listener{{Address: "127.0.0.1:0", DenyStatus: 421}, {Address: "127.0.0.1:0", DenyStatus: 422}}
	})
	back := dial(t, s.Addrs()[1].String())
	defer back.Close()
	for range 10 {
		askOver(t, back, "/")
	}
	if resp := askOver(t, back, "/"); resp.StatusCode != 422 || len(s.state.Load().places) != 3 {
		t.Errorf("status %d, %d places", resp.StatusCode, len(s.state.Load().places))
	}
	if info := s.info(); len(info.Listen) != 2 || info.Listen[0].DenyStatus != 421 || info.Listen[1].Address != s.Addrs()[1].String() {
		t.Errorf("/v1/info shows %+v", info.Listen)
	}
}

// A configuration that cannot hold changes nothing, and says all that is wrong.
func TestReloadRefuses(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s := start(t, perIP())
	before := fmt.Sprintf("%+v", s.info().Listen)
	for want, change := range map[string]func(*Config){
		"Listeners is missing": func(c *Config) { c.Listeners = nil },
		"address already in use": func(c *Config) {
			c.Listeners = []Listener{{Address: "127.0.0.1:0", DenyStatus: 420}, {Address: "127.0.0.1:0"}, {Address: taken.Addr().String()}}
		},
		"CertFile": func(c *Config) { c.Listeners[0].TLS = &TLS{CertFile: "/none", KeyFile: "/none"} },
		"only a restart can change Connections.HeaderBytes, Upstream": func(c *Config) {
			c.Connections.HeaderBytes = 1024
			c.Upstream = &Upstream{URLs: []string{"http://127.0.0.1:1"}}
		},
		"only a restart can change Listeners[0].ReusePort": func(c *Config) { c.Listeners[0].ReusePort = true },
		"only a restart can change Admin":                  func(c *Config) { c.Admin = "127.0.0.1:1" },
	} {
		err := s.Reload(s.other(t, perIP(), change))
		if plain := strings.ReplaceAll(errText(err), ": ", " "); !strings.Contains(plain, want) && !strings.Contains(errText(err), want) {
			t.Errorf("%s: %v", want, err)
		}
		if live := new(NotLive); errors.As(err, &live) != strings.HasPrefix(want, "only") {
			t.Errorf("%s: the error is %T", want, err)
		}
		if after := fmt.Sprintf("%+v", s.info().Listen); after != before || len(s.state.Load().places) != 1 {
			t.Errorf("%s: something has changed:\n%s\n%s", want, before, after)
		}
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if err := s.Reload(s.other(t, perIP())); !errors.Is(err, ErrNotServing) {
		t.Errorf("after the drain: %v", err)
	}
	s2, err := New(newConfig(t, perIP()))
	if err != nil {
		t.Fatal(err)
	}
	if err := s2.Reload(newConfig(t, perIP())); !errors.Is(err, ErrNotServing) {
		t.Errorf("before it serves: %v", err)
	}
}

// frozen are the fields that only a restart changes, kept those that stay what they were for
// New. All others are live.
var (
	frozen = []string{"Admin", "DenialLogs", "AccessLog.File", "Connections.HeaderBytes", "Connections.BodyBytes", "Connections.WriteTimeout", "Kernel.Table"}
	kept   = []string{"Overrides", "Bans", "Rules", "Changes", "Reload", "Collectors", "Logger", "Kernel.Open"}
	live   = []string{
		"Limiter", "Engine", "Identity", "Tiers", "AdminTokens", "ListFiles", "BadRequests", "DecideAPI", "Ready", "TopTalkers", "Version", "GoMemory", "Store", "Cluster", "LostLogs", "Alive",
		"Connections.Max", "Connections.MaxPerClient", "Connections.MaxStreamsPerClient", "Connections.HeaderTimeout", "Connections.IdleTimeout", "Drain.Delay", "Drain.Timeout",
		"Upstream.URLs", "Upstream.ConnectTimeout", "Upstream.ResponseTimeout", "Upstream.IdleTimeout", "Upstream.MaxConnections", "Upstream.MaxPerClient", "Upstream.MaxQueue", "Upstream.QueueTimeout", "Upstream.LookAlikes", "AccessLog.Queries",
		"Listeners",
	}
)

// Somebody has thought about each field.
func TestEveryFieldIsLiveOrNot(t *testing.T) {
	t.Parallel()
	known := slices.Concat(frozen, kept, live)
	var look func(prefix string, of reflect.Type)
	look = func(prefix string, of reflect.Type) {
		for f := range of.Fields() {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			switch name := prefix + f.Name; {
			case !f.IsExported():
			case slices.Contains([]string{"Connections", "Drain", "Upstream", "AccessLog", "Kernel"}, name):
				look(name+".", inner)
			case !slices.Contains(known, name):
				t.Errorf("%s: does a reload change it? See notLive", name)
			}
		}
	}
	look("", reflect.TypeFor[Config]())
	for _, name := range frozen {
		was := newConfig(t, perIP())
		was.Kernel = new(Kernel)
		c := was
		c.Kernel = new(Kernel)
		v := reflect.ValueOf(&c).Elem()
		for part := range strings.SplitSeq(name, ".") {
			if v = v.FieldByName(part); v.Kind() == reflect.Pointer {
				v = v.Elem()
			}
		}
		switch v.Kind() {
		case reflect.String:
			v.SetString("changed")
		default:
			v.SetInt(12345)
		}
		if got := (&state{config: was}).notLive(&c); !slices.Equal(got, []string{name}) {
			t.Errorf("%s: %v are said not to be live", name, got)
		}
	}
	// The kernel is told ports and balancers once.
	was, c := newConfig(t, perIP()), newConfig(t, perIP())
	was.Kernel, c.Kernel = new(Kernel), new(Kernel)
	c.Listeners = []Listener{{Address: "127.0.0.1:1", ProxyProtocol: loopback()}, {Address: "unix:/run/f.sock"}}
	told := []string{"Listeners, whose ports the kernel is told,", "Listeners.ProxyProtocol, which the kernel is told,"}
	if got := (&state{config: was}).notLive(&c); !slices.Equal(got, told) {
		t.Errorf("%q are said not to be live, want %q", got, told)
	}
}

// A listener that stays takes new connections by its new options: with TLS, another
// certificate, PROXY headers.
func TestReloadOptions(t *testing.T) {
	t.Parallel()
	s := start(t, generous())
	plain := dial(t, s.addr)
	defer plain.Close()
	askOver(t, plain, "/")
	var last []byte
	for range 2 {
		files := redistest.NewCertificate(t, time.Now().Add(time.Hour))
		s.reload(t, generous(), func(c *Config) { c.Listeners[0].TLS = &TLS{CertFile: files.CertFile, KeyFile: files.KeyFile} })
		c, err := tls.Dial("tcp", s.addr, &insecure)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if cert := c.ConnectionState().PeerCertificates[0].Raw; slices.Equal(cert, last) {
			t.Error("the certificate is the old one")
		} else {
			last = cert
		}
		if resp := askOver(t, c, "/"); resp.StatusCode != 200 {
			t.Errorf("through TLS: %d", resp.StatusCode)
		}
		if len(s.expiry()) != 1 || s.info().Listen[0].TLS == nil {
			t.Errorf("expiry %v, info %+v", s.expiry(), s.info().Listen)
		}
	}
	if resp := askOver(t, plain, "/"); resp.StatusCode != 200 {
		t.Errorf("on the connection without TLS: %d", resp.StatusCode)
	}
	s.reload(t, generous(), func(c *Config) { c.Listeners[0].TLS, c.Listeners[0].ProxyProtocol = nil, loopback() })
	c := dial(t, s.addr)
	defer c.Close()
	io.WriteString(c, "PROXY TCP4 192.0.2.9 127.0.0.1 1 2\r\n")
	if resp := askOver(t, c, "/"); resp.StatusCode != 200 {
		t.Errorf("behind a balancer: %d", resp.StatusCode)
	}
}
