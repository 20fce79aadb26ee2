package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/policy"
)

// Unix sockets as addresses: normal forms, and every mistake with its place.
func TestUnixAddresses(t *testing.T) {
	t.Parallel()
	const rule = "rules: [{name: a, rate: 20/s}]\n"
	c := mustParse(t, `listen: [{address: unix:/run//a.sock, mode: "620"}, "unix:/run/./b.sock"]
admin: unix:/run/admin.sock
`+rule)
	a, b := c.Server.Listeners[0], c.Server.Listeners[1]
	if a.Address != "unix:/run/a.sock" || a.Mode != 0o620 || b.Address != "unix:/run/b.sock" || b.Mode != 0 || c.Server.Admin != "unix:/run/admin.sock" {
		t.Errorf("%+v %s", c.Server.Listeners, c.Server.Admin)
	}
	if w := Warnings(c, plan(t, c)); len(w) > 0 {
		t.Errorf("warnings: %q", w)
	}
	c = mustParse(t, `listen: [{address: "unix:/run/a.sock", mode: "0666"}]`+"\n"+rule)
	if w := Warnings(c, plan(t, c)); len(w) != 1 || !strings.Contains(w[0], "every user of this machine may connect") {
		t.Errorf("warnings: %q", w)
	}
	long := "/" + strings.Repeat("x", 103)
	for text, want := range map[string]string{
		`listen: unix:run/a.sock`:                                      `f.yaml:1:9: listen: "run/a.sock" is not the absolute path of a socket; write for example unix:/run/fastlimit/http.sock`,
		`listen: "unix:@a"`:                                            `f.yaml:1:9: listen: "@a" is an abstract socket, which has no permissions: any process could connect; write for example unix:/run/`,
		`listen: "unix:/run/"`:                                         `f.yaml:1:9: listen: "/run/" is not the absolute path of a socket`,
		`admin: unix:` + long:                                          `f.yaml:1:8: admin: the path has 104 bytes; want at most 103`,
		`listen: [unix:/a, "unix:/b/../a"]`:                            `listen[1]: unix:/a is taken by the listener unix:/a; remove one of the two`,
		"listen: unix:/a\nadmin: unix:/a":                              `f.yaml:2:8: admin: unix:/a is taken by the listener unix:/a, and admin must never be exposed`,
		`listen: [{address: "127.0.0.1:1", mode: "0660"}]`:             `f.yaml:1:41: listen[0].mode: 0660 is of a Unix socket, and 127.0.0.1:1 is none; remove it`,
		`listen: [{address: "unix:/a", mode: 0660}]`:                   `f.yaml:1:37: listen[0].mode: 0660 is not text; write it in quotes: "0660"`,
		`listen: [{address: "unix:/a", mode: "0999"}]`:                 `listen[0].mode: "0999" is no mode of three octal digits; want permissions in quotes`,
		`listen: [{address: "unix:/a", mode: "4660"}]`:                 `listen[0].mode: "4660" is no mode`,
		`listen: [{address: "unix:/a", mode: "66"}]`:                   `listen[0].mode: "66" is no mode`,
		`listen: [{address: "unix:/a", mode: "0000"}]`:                 `listen[0].mode: "0000" lets nobody connect`,
		`listen: [{address: "unix:/a", mode: "0444"}]`:                 `listen[0].mode: 0444 lets nobody write, and so nobody connect; want for example 0660`,
		`cluster: {name: a, secret: 0123456789abcdef0, bind: unix:/a}`: `cluster.bind: `,
	} {
		_, err := Parse("f.yaml", []byte(text+"\n"+rule), noEnv)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// The balancers of a listener, and what is probably a mistake about them.
func TestProxyProtocol(t *testing.T) {
	t.Parallel()
	const rule = "rules: [{name: a, rate: 20/s}]\n"
	c := mustParse(t, `listen: [{address: ":80", proxy_protocol: [10.0.0.0/8, "2001:db8::1"]}, {address: "unix:/a", proxy_protocol: [127.0.0.0/8]}]`+"\n"+rule)
	if got := fmt.Sprint(c.Server.Listeners[0].ProxyProtocol, c.Server.Listeners[1].ProxyProtocol); got != "[10.0.0.0/8 2001:db8::1/128] [127.0.0.0/8]" {
		t.Error(got)
	}
	if w := Warnings(c, plan(t, c)); len(w) > 0 {
		t.Errorf("warnings: %q", w)
	}
	for text, want := range map[string]string{
		`{address: ":80", proxy_protocol: [0.0.0.0/0]}`:      "proxy_protocol: 0.0.0.0/0 believes everybody",
		`{address: "unix:/a", proxy_protocol: [10.0.0.0/8]}`: "the peers of unix:/a count as 127.0.0.1, which is in none of its prefixes",
	} {
		c := mustParse(t, "listen: ["+text+"]\n"+rule)
		if w := Warnings(c, plan(t, c)); len(w) != 1 || !strings.Contains(w[0], want) {
			t.Errorf("%s: %q", text, w)
		}
	}
	_, err := Parse("f.yaml", []byte(`listen: [{address: ":80", proxy_protocol: [10.1.0.0/8, lb.test]}]`+"\n"+rule), noEnv)
	for _, want := range []string{"f.yaml:1:44: listen[0].proxy_protocol[0]: 10.1.0.0/8 has bits set beyond its length; write 10.0.0.0/8", `listen[0].proxy_protocol[1]: "lb.test" is neither`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

// A listener has the headers of the top level, wherever that stands, unless it names its own.
func TestOriginalRequestOfListeners(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "listen: [{address: 'a:1', original_request: none}, 'a:2', {address: 'a:3', original_request: x-original}]\noriginal_request: x-forwarded\n"+rule)
	var got []string
	for i := range c.Server.Listeners {
		if o := c.Server.Listeners[i].OriginalRequest; o != nil {
			got = append(got, o.String())
		} else {
			got = append(got, "common")
		}
	}
	if !slices.Equal(got, []string{"none", "common", "x-original"}) || c.Policy.OriginalRequest != policy.OriginalXForwarded {
		t.Errorf("%v, and %v", got, c.Policy.OriginalRequest)
	}
	if w := strings.Join(Warnings(c, plan(t, c)), "\n"); !strings.Contains(w, "original_request: that of a:3 is read from trusted proxies only") || strings.Contains(w, "of a:1 is") {
		t.Error(w)
	}
	_, err := Parse("f.yaml", []byte("listen: [{address: 'a:1', original_request: x-originals}]\n"+rule), noEnv)
	if err == nil || err.Error() != `f.yaml:1:45: listen[0].original_request: "x-originals" is not a known value; write none, x-original or x-forwarded` {
		t.Error(err)
	}
}
