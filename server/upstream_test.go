package server

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/upstream"
)

// What is wrong with an upstream is an error of New with the path of the field, and what
// may hold a password is not shown.
func TestUpstreamErrors(t *testing.T) {
	t.Parallel()
	for want, u := range map[string]Upstream{
		"Upstream.URLs is missing":                              {},
		"Upstream.URLs[1] contains a user or a password":        {URLs: []string{"http://a", "http://u:s3cret@b"}},
		`Upstream.URLs[1] "http://a:80" is the same server`:     {URLs: []string{"http://a", "http://a:80"}},
		"Upstream.ConnectTimeout -1s is negative":               {URLs: []string{"http://a"}, ConnectTimeout: -time.Second},
		"Upstream.ResponseTimeout -1s is negative":              {URLs: []string{"http://a"}, ResponseTimeout: -time.Second},
		"Upstream.IdleTimeout -1s is negative":                  {URLs: []string{"http://a"}, IdleTimeout: -time.Second},
		"Upstream.QueueTimeout -1s is negative":                 {URLs: []string{"http://a"}, QueueTimeout: -time.Second},
		"Upstream.MaxConnections -1 is too small":               {URLs: []string{"http://a"}, MaxConnections: -1},
		"Upstream.URLs 65 servers are too many want at most 64": {URLs: make([]string, 65)},
		"Upstream.MaxPerClient -1 is negative":                  {URLs: []string{"http://a"}, MaxPerClient: -1},
		"Upstream.URLs[0] is not a URL":                         {URLs: []string{"127.0.0.1:3000"}},
		`Upstream.URLs[0] scheme "ftp" is not one of`:           {URLs: []string{"ftp://a"}},
		"Upstream.URLs[0] cannot be read as a URL":              {URLs: []string{"http://s3cret\x7f"}},
		`Upstream.URLs[0] has the path "/x"`:                    {URLs: []string{"http://a/x"}},
		"Upstream.URLs[0] has a query":                          {URLs: []string{"http://a?q"}},
		"Upstream.URLs[0] has a fragment":                       {URLs: []string{"http://a#"}},
		"Upstream.URLs[0] names no host":                        {URLs: []string{"http://:80"}},
		`Upstream.URLs[0] "a*b" is neither an IP address`:       {URLs: []string{"http://a*b"}},
		`Upstream.URLs[0] port "0" is not a number`:             {URLs: []string{"http://a:0"}},
		`Upstream.URLs[0] "@a" is an abstract socket`:           {URLs: []string{"unix:@a"}},
	} {
		c := newConfig(t, perIP())
		c.Upstream = &u
		_, err := New(c)
		plain := strings.ReplaceAll(strings.ReplaceAll(errText(err), ": ", " "), "fastlimit/server ", "")
		if !strings.Contains(plain, want) || strings.Contains(plain, "s3cret") {
			t.Errorf("%s:\n%v", want, err)
		}
	}
	u := Upstream{URLs: []string{"http://127.0.0.1:3000", "https://app.internal", "unix:/run/app.sock", "http://"}}
	if got := strings.Join(u.Addresses(), " "); got != "127.0.0.1:3000 app.internal:443 unix:/run/app.sock " {
		t.Errorf("addresses %q", got)
	}
	c := newConfig(t, perIP())
	c.Upstream, c.DecideAPI = &Upstream{URLs: []string{"http://a"}}, true
	if _, err := New(c); !strings.Contains(errText(err), "DecideAPI") {
		t.Error(err)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// URLs are taken apart as they are dialled.
func TestUpstreamServers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]upstream.Server{
		"http://127.0.0.1:3000": {Network: "tcp", Address: "127.0.0.1:3000", Name: "http://127.0.0.1:3000"},
		"HTTP://App.Internal":   {Network: "tcp", Address: "app.internal:80", Name: "http://app.internal"},
		"https://[2001:db8::1]": {Network: "tcp", Address: "[2001:db8::1]:443", Name: "https://[2001:db8::1]"},
		"https://a_b:08443":     {Network: "tcp", Address: "a_b:8443", Name: "https://a_b:08443"},
		"unix:/run/app.sock":    {Network: "unix", Address: "/run/app.sock", Name: "unix:/run/app.sock"},
	} {
		var p problems
		got := p.server("", text)
		secure := got.TLS
		if got.TLS = nil; got != want || len(p) > 0 || (secure != nil) != strings.HasPrefix(text, "https") {
			t.Errorf("%s: %+v, %v", text, got, p)
		}
		if secure != nil && strings.HasPrefix(text, "https://[") && secure.ServerName != "2001:db8::1" {
			t.Errorf("%s: name %q", text, secure.ServerName)
		}
	}
}

// The pool has the settings and their defaults, is shown in the metrics, and is closed when
// the server has drained. The caller's configuration stays as it was.
func TestUpstreamPool(t *testing.T) {
	t.Parallel()
	origin, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer origin.Close()
	url := "http://" + origin.Addr().String()
	given := Upstream{URLs: []string{url}, MaxConnections: 1, MaxQueue: -1}
	s := start(t, perIP(), func(c *Config) { c.Upstream = &given })
	c, err := s.pools.Current().Get(netip.Addr{}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.pools.Current().Get(netip.Addr{}, nil, false); !errors.Is(err, upstream.ErrQueueFull) {
		t.Errorf("the second of one: %v", err)
	}
	if got := s.config().Upstream; got.ResponseTimeout != 30*time.Second || got.QueueTimeout != time.Second || given.ResponseTimeout != 0 {
		t.Errorf("%+v of %+v", *got, given)
	}
	for _, want := range []string{`fastlimit_upstream_connections{server="` + url + `",state="in_use"} 1`, `fastlimit_upstream_queue_total{outcome="full"} 1`} {
		if body := string(readAll(t, get(t, "http://"+s.admin+"/metrics"))); !strings.Contains(body, want) {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
	s.pools.Current().Put(c)
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if _, err := s.pools.Current().Get(netip.Addr{}, nil, false); !errors.Is(err, upstream.ErrClosed) {
		t.Errorf("after the drain: %v", err)
	}
	if st := s.pools.Stats().Servers[0]; st.Idle != 0 || st.InUse != 0 {
		t.Errorf("%+v", st)
	}
}
