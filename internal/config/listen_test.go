package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/server"
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
		`listen: [unix:/a, "unix:/b/../a"]`:                            `listen[1]: unix:/a is already used by the listener unix:/a; remove one of the two`,
		"listen: unix:/a\nadmin: unix:/a":                              `f.yaml:2:8: admin: unix:/a is already used by the listener unix:/a, and clients must never reach admin`,
		`listen: [{address: "127.0.0.1:1", mode: "0660"}]`:             `f.yaml:1:41: listen[0].mode: 0660 is for a Unix socket, and 127.0.0.1:1 is not one; remove it`,
		`listen: [{address: "unix:/a", mode: 0660}]`:                   `f.yaml:1:37: listen[0].mode: 0660 is not text; write it in quotes: "0660"`,
		`listen: [{address: "unix:/a", mode: "0999"}]`:                 `listen[0].mode: "0999" is not a mode of three octal digits; want permissions in quotes`,
		`listen: [{address: "unix:/a", mode: "4660"}]`:                 `listen[0].mode: "4660" is not a mode`,
		`listen: [{address: "unix:/a", mode: "66"}]`:                   `listen[0].mode: "66" is not a mode`,
		`listen: [{address: "unix:/a", mode: "0000"}]`:                 `listen[0].mode: "0000" lets nobody connect`,
		`listen: [{address: "unix:/a", mode: "0444"}]`:                 `listen[0].mode: 0444 lets nobody write, so nobody can connect; want for example 0660`,
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
		`{address: ":80", proxy_protocol: [0.0.0.0/0]}`:      "proxy_protocol: 0.0.0.0/0 trusts everybody",
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

// files is a machine with these files.
func files(all map[string]string) machine {
	return machine{readFile: func(path string) ([]byte, error) {
		if text, ok := all[path]; ok {
			return []byte(text), nil
		}
		return nil, errors.New("no such file")
	}}
}

func TestAnswersOfAListener(t *testing.T) {
	t.Parallel()
	c, err := parse("f.yaml", []byte(`
deny_status: 420
listen:
  - {address: "a:1", headers: [ratelimit, ratelimit-legacy, x-ratelimit, x-ratelimit-limit], headers_on: always}
  - {address: "a:2", headers: none, denial: {content_type: "text/html; charset=utf-8", body_file: busy.html}}
  - {address: "a:3", headers: x-ratelimit, headers_on: denials, deny_status: 403}
  - a:4
`+rule), noEnv, files(map[string]string{"busy.html": "in {{retry_after}} s\r\n\n"}))
	if err != nil {
		t.Fatal(err)
	}
	want := []server.Listener{
		{
			Address: "a:1", DenyStatus: 420, HeadersOn: server.HeadersAlways,
			Headers: []server.HeaderSet{server.RateLimitHeaders, server.RateLimitLegacyHeaders, server.XRateLimitHeaders, server.XRateLimitLimitHeaders},
		},
		{
			Address: "a:2", DenyStatus: 420, Headers: []server.HeaderSet{server.NoHeaders},
			Denial: server.Denial{ContentType: "text/html; charset=utf-8", Body: "in {{retry_after}} s\r\n\n"},
		},
		{Address: "a:3", DenyStatus: 403, Headers: []server.HeaderSet{server.XRateLimitHeaders}},
		{Address: "a:4", DenyStatus: 420},
	}
	if !reflect.DeepEqual(c.Server.Listeners, want) {
		t.Errorf("got\n%+v\nwant\n%+v", c.Server.Listeners, want)
	}
}

// Names in the file are those that package server has for its constants.
func TestNamesOfHeaderSets(t *testing.T) {
	t.Parallel()
	for set := server.RateLimitHeaders; set <= server.NoHeaders; set++ {
		for on := server.HeadersOnDenials; on <= server.HeadersAlways; on++ {
			if set == server.NoHeaders && on == server.HeadersAlways {
				continue
			}
			c := mustParse(t, "listen: [{address: 'a:1', headers: ["+set.String()+"], headers_on: "+on.String()+"}]\n"+rule)
			if l := c.Server.Listeners[0]; l.Headers[0] != set || l.HeadersOn != on {
				t.Errorf("%v, %v: %+v", set, on, l)
			}
		}
	}
}

func TestMistakesInAnswers(t *testing.T) {
	t.Parallel()
	m := files(map[string]string{"busy.html": "<p>\nin {{retry}} s", "large.html": strings.Repeat("x", 16<<10+1), "good.html": "busy"})
	const denial = "denial: {content_type: text/html, body_file: "
	for settings, want := range map[string]string{
		"headers: [ratelimit, none]":          `f.yaml:1:46: listen[0].headers[1]: none is listed with others; write none alone, or remove it`,
		"headers: [none, ratelimit]":          `f.yaml:1:35: listen[0].headers[0]: none is listed with others; write none alone, or remove it`,
		"headers: [ratelimit, x-rate]":        `f.yaml:1:46: listen[0].headers[1]: "x-rate" is not a known value; write ratelimit, ratelimit-legacy, x-ratelimit, x-ratelimit-limit or none`,
		"headers: RateLimit":                  `f.yaml:1:34: listen[0].headers: "RateLimit" is not a known value; did you mean ratelimit? write ratelimit, ratelimit-legacy, x-ratelimit, x-ratelimit-limit or none`,
		"headers: [x-ratelimit, x-ratelimit]": `f.yaml:1:48: listen[0].headers[1]: x-ratelimit is listed twice; remove it`,
		"headers: []":                         `f.yaml:1:34: listen[0].headers: the list is empty; write an element, or remove the setting`,
		"headers: [none, ratelimit, x-ratelimit, ratelimit-legacy, x-ratelimit-limit]": `f.yaml:1:35: listen[0].headers[0]: none is listed with others; write none alone, or remove it`,
		"headers: {a: b}":                                    `f.yaml:1:34: listen[0].headers: found a mapping; want ratelimit, ratelimit-legacy, x-ratelimit, x-ratelimit-limit or none`,
		"headers_on: all":                                    `f.yaml:1:37: listen[0].headers_on: "all" is not a known value; write denials or always`,
		"headers: none, headers_on: always":                  `f.yaml:1:52: listen[0].headers_on: always has no effect, as headers is none; name headers, or remove it`,
		denial + "none.html}":                                `f.yaml:1:70: listen[0].denial.body_file: "none.html" no such file; name a file that can be read`,
		denial + "large.html}":                               `f.yaml:1:70: listen[0].denial.body_file: "large.html" has 16385 bytes; want at most 16384, as every denial sends them`,
		denial + "busy.html}":                                `f.yaml:1:70: listen[0].denial.body_file: "busy.html" at 2:4: "{{retry}}" is not a placeholder; write {{retry_after}}, or put a space between literal braces`,
		"denial: {content_type: html, body_file: good.html}": `f.yaml:1:48: listen[0].denial.content_type: "html" is not a media type; want a media type such as text/html; charset=utf-8`,
		"denial: {body_file: good.html}":                     `f.yaml:1:33: listen[0].denial.content_type: missing; write for example "text/html; charset=utf-8"`,
		"denial: {content_type: text/html}":                  `f.yaml:1:33: listen[0].denial.body_file: missing; name a file with the body`,
		"denial: busy.html":                                  `f.yaml:1:33: listen[0].denial: found the text "busy.html"; want settings, such as {content_type: text/html, body_file: busy.html}`,
		"denial: {content_type: html, body_file: busy.html}": "f.yaml:1:48: listen[0].denial.content_type: \"html\" is not a media type; want a media type such as text/html; charset=utf-8\n" + `f.yaml:1:65: listen[0].denial.body_file: "busy.html" at 2:4: "{{retry}}" is not a placeholder; write {{retry_after}}, or put a space between literal braces`,
	} {
		_, err := parse("f.yaml", []byte("listen: [{address: a:1, "+settings+"}]\n"+rule), noEnv, m)
		if err == nil || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", settings, err, want)
		}
	}
	_, err := Parse("f.yaml", []byte("listen: [{address: a:1, "+denial+"good.html}}]\n"+rule), noEnv)
	if err == nil || !strings.Contains(err.Error(), `"good.html" is not read here; load the configuration from a file`) {
		t.Errorf("without files: %v", err)
	}
}
