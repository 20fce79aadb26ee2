package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/server"
)

// defaultUpstream is what the settings mean that are not written.
func defaultUpstream(urls ...string) server.Upstream {
	return server.Upstream{
		URLs: urls, ConnectTimeout: time.Second, ResponseTimeout: 30 * time.Second, IdleTimeout: time.Minute,
		MaxConnections: 1024, MaxQueue: 1024, QueueTimeout: time.Second,
	}
}

func TestUpstream(t *testing.T) {
	t.Parallel()
	all := server.Upstream{
		URLs: []string{"http://a:1", "https://b"}, ConnectTimeout: 2 * time.Second, ResponseTimeout: 3 * time.Second, IdleTimeout: 2 * time.Hour,
		MaxConnections: 7, MaxQueue: -1, QueueTimeout: 5 * time.Millisecond,
	}
	for text, want := range map[string]server.Upstream{
		"http://127.0.0.1:3000":                   defaultUpstream("http://127.0.0.1:3000"),
		"HTTPS://App.internal":                    defaultUpstream("HTTPS://App.internal"),
		"unix:/run/app.sock":                      defaultUpstream("unix:/run/app.sock"),
		"{url: http://localhost:3000}":            defaultUpstream("http://localhost:3000"),
		"{url: ['http://[::1]:3000', 'unix:/a']}": defaultUpstream("http://[::1]:3000", "unix:/a"),
		`{url: ["http://a:1", "https://b"], connect_timeout: 2s, response_timeout: 3s, idle_timeout: 2h, max_connections: 7, max_queue: 0, queue_timeout: 5ms}`: all,
		// The same port of other machines, and of this one on another address.
		"http://10.0.0.5:8080":  defaultUpstream("http://10.0.0.5:8080"),
		"http://127.0.0.2:8080": defaultUpstream("http://127.0.0.2:8080"),
	} {
		if c := mustParse(t, "upstream: "+text+"\n"+rule); !reflect.DeepEqual(*c.Server.Upstream, want) {
			t.Errorf("%s: %+v", text, *c.Server.Upstream)
		}
	}
	if c := mustParse(t, rule); c.Server.Upstream != nil {
		t.Error("there is one without the setting")
	}
	c := mustParse(t, "listen: ':8080'\nadmin: 0.0.0.0:8081\nupstream: {url: ['http://10.0.0.5:8080', 'http://10.0.0.6:8081', 'http://10.0.0.6:8080']}\n"+rule)
	if n := len(c.Server.Upstream.URLs); n != 3 {
		t.Errorf("%d servers beside listeners on all addresses", n)
	}
}

func TestUpstreamErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"upstream: http://127.0.0.1:3000/app":                   `f.yaml:1:11: upstream: has the path "/app"; remove it`,
		"upstream: http://a/":                                   `upstream: has the path "/"; remove it`,
		"upstream: http://a?x=1":                                "upstream: has a query; remove it",
		"upstream: http://a?":                                   "upstream: has a query; remove it",
		"upstream: 'http://a#f'":                                "upstream: has a fragment; remove it",
		"upstream: 'http://a#'":                                 "upstream: has a fragment; remove it",
		"upstream: http://u:s3cret@a":                           "upstream: contains a user or a password; remove it",
		"upstream: 'http://u:s3cret@a:b c'":                     "upstream: cannot be read as a URL (not shown, it may hold a password)",
		"upstream: ftp://a":                                     `upstream: scheme "ftp" is not one of http, https and unix; write for example http://127.0.0.1:3000`,
		"upstream: 127.0.0.1:3000":                              "upstream: is not a URL; write for example",
		"upstream: http://":                                     "upstream: names no host",
		"upstream: http://:3000":                                "upstream: names no host",
		"upstream: http://a:0":                                  `upstream: port "0" is not a number from 1 to 65535`,
		"upstream: 'http://a:'":                                 `upstream: port "" is not a number from 1 to 65535`,
		"upstream: http://a:65536":                              `upstream: port "65536" is not a number from 1 to 65535`,
		"upstream: http://10.0.0.300":                           `upstream: "10.0.0.300" is neither an IP address nor a host name`,
		"upstream: http://0.0.0.0:1":                            `upstream: "0.0.0.0" is neither`,
		"upstream: http://bücher.example":                       `upstream: "bücher.example" is neither`,
		"upstream: unix:run/app.sock":                           `upstream: "run/app.sock" is not the absolute path of a socket`,
		"upstream: unix:@app":                                   `upstream: "@app" is an abstract socket`,
		"upstream:":                                             "f.yaml:1:1: upstream: has no value; want a URL",
		"upstream: [http://a]":                                  "f.yaml:1:11: upstream: found a list; want a URL such as",
		"upstream: {}":                                          "f.yaml:1:11: upstream.url: missing; write for example upstream: {url:",
		"upstream: {url: []}":                                   "f.yaml:1:17: upstream.url: the list is empty",
		"upstream: {url: [http://a, http://b/x]}":               `f.yaml:1:28: upstream.url[1]: has the path "/x"`,
		"upstream: {url: [http://a, http://A:80]}":              `f.yaml:1:28: upstream.url[1]: "http://A:80" is the same server as "http://a"; remove one of the two`,
		"upstream: {url: ['unix:/a', 'unix:/a']}":               `upstream.url[1]: "unix:/a" is the same server as "unix:/a"`,
		"upstream: {url: http://a, max_connections: 0}":         "upstream.max_connections: 0 is too small; want at least 1",
		"upstream: {url: http://a, response_timeout: 5}":        `upstream.response_timeout: "5" is not a time`,
		"upstream: {url: http://a, queue_timeout: 0s}":          "upstream.queue_timeout: 0s is out of range; want 1ms to 1h",
		"upstream: {url: http://a, timeout: 5s}":                "upstream.timeout: unknown setting",
		"upstream: http://a\ndecide_api: true":                  "f.yaml:2:13: decide_api: is for a decision service, and upstream makes this a proxy; remove it",
		"upstream: http://127.0.0.1:8080":                       "f.yaml:1:11: upstream: is the listener 127.0.0.1:8080: requests would loop",
		"upstream: http://localhost:8080":                       "is the listener 127.0.0.1:8080",
		"listen: ':9'\nupstream: 'http://[::1]:9'":              "is the listener :9",
		"listen: 0.0.0.0:80\nupstream: http://127.8.0.1":        "is the listener 0.0.0.0:80",
		"listen: '10.0.0.1:443'\nupstream: https://10.0.0.1":    "is the listener 10.0.0.1:443",
		"listen: unix:/a\nupstream: {url: [http://a, unix:/a]}": "f.yaml:2:28: upstream.url[1]: is the listener unix:/a",
		"upstream: http://127.0.0.1:8081":                       "upstream: is admin, which clients must never reach",
		"upstream:\nurl: http://a":                              "f.yaml:2:1: url: unknown setting here; it belongs in upstream, indented more than upstream",
	} {
		_, err := Parse("f.yaml", []byte(text+"\n"+rule), noEnv)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

func TestUpstreamFlag(t *testing.T) {
	t.Parallel()
	c := Default()
	if err := c.Override(Flags{Upstream: "http://a:1"}, false); err != nil || !reflect.DeepEqual(*c.Server.Upstream, defaultUpstream("http://a:1")) {
		t.Errorf("without a file: %+v, %v", c.Server.Upstream, err)
	}
	file := "upstream: {url: http://b, max_queue: 0, idle_timeout: 5s}\n" + rule
	c = mustParse(t, file)
	if err := c.Override(Flags{Upstream: "unix:/a"}, true); err != nil || c.Server.Upstream.URLs[0] != "unix:/a" || c.Server.Upstream.MaxQueue != -1 || c.Server.Upstream.IdleTimeout != 5*time.Second {
		t.Errorf("beside a file: %+v, %v", c.Server.Upstream, err)
	}
	for text, tt := range map[string]struct {
		flags Flags
		want  string
	}{
		"decide_api: true\n":             {Flags{Upstream: "http://a"}, "--upstream: the file has decide_api"},
		"":                               {Flags{Upstream: "http://127.0.0.1:8081"}, "upstream 127.0.0.1:8081 is admin"},
		"upstream: http://127.0.0.1:9\n": {Flags{Listen: ":9"}, "upstream 127.0.0.1:9 is the listener :9: requests would loop"},
	} {
		c := mustParse(t, text+rule)
		before := *c
		if err := c.Override(tt.flags, true); err == nil || !strings.Contains(err.Error(), tt.want) || !reflect.DeepEqual(*c, before) {
			t.Errorf("%q %+v: %v", text, tt.flags, err)
		}
	}
}

func TestUpstreamWarnings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"": false, "original_request: x-original\ntrusted_proxies: [10.0.0.1]\n": true} {
		c := mustParse(t, "upstream: http://a\n"+text+rule)
		warned := slices.ContainsFunc(Warnings(c, plan(t, c)), func(w string) bool { return strings.HasPrefix(w, "original_request: a proxy decides") })
		if warned != want {
			t.Errorf("%q: warned %v", text, warned)
		}
	}
}
