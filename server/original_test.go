package server

import (
	"net"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/policy"
)

// Each listener reads the headers that it is meant to, and the others are only what a client
// may have sent; also after the lists or the live overrides have been replaced. Both ways of
// answering a request agree.
func TestOriginalRequestOfListeners(t *testing.T) {
	t.Parallel()
	set := perIP()
	set.TrustedProxies, set.OriginalRequest, set.OnUnnamed = loopback(), policy.OriginalXForwarded, policy.UnnamedDeny
	set.Rules[0].Limit.Burst, set.Rules[0].Limit.Rate.Per = 1, time.Hour
	set.Rules[0].Match.Paths = []string{"/login"}
	c := newConfig(t, set)
	c.Listeners = nil
	none, original := policy.OriginalNone, policy.OriginalXOriginal
	for _, own := range []*policy.OriginalRequest{nil, &none, &original} {
		c.Listeners = append(c.Listeners, Listener{Address: "127.0.0.1:0", OriginalRequest: own})
	}
	s := start(t, set, func(to *Config) { to.Listeners = c.Listeners })
	body := "\r\n"
	ask := func(listener int, client, path, header string) int {
		t.Helper()
		return raw(t, s.Addrs()[listener].String(), "GET "+path+" HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: "+client+"\r\n"+header+"Connection: close\r\n"+body)[0].StatusCode
	}
	const forwarded, nginx = "X-Forwarded-Uri: /login\r\n", "X-Original-URI: /login\r\n"
	for round, swap := range []func(){
		func() {},
		func() { s.SetLists(nil) },
		func() { s.SetEngine(s.config().Engine, nil) },
		func() { body = "Content-Length: 1\r\n\r\nx" }, // fasthttp's
	} {
		swap()
		for i, q := range []struct {
			listener     int
			path, header string
			want         int // of the second request
		}{
			{0, "/", forwarded, 429},
			{0, "/login", nginx, 400}, // it does not name the request
			{1, "/login", nginx, 429},
			{1, "/", nginx + forwarded, 200},
			{2, "/", nginx, 429},
			{2, "/", nginx + "X-Forwarded-Uri: /\r\n", 429},
			{2, "/login", forwarded, 400},
		} {
			client := net.IPv4(10, byte(round), byte(i), 1).String()
			first := ask(q.listener, client, q.path, q.header)
			if second := ask(q.listener, client, q.path, q.header); second != q.want || first != 200 && first != q.want {
				t.Errorf("round %d, listener %d, %s %q: %d, then %d, want %d", round, q.listener, q.path, q.header, first, second, q.want)
			}
		}
	}
}
