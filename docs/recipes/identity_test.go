package recipes_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// spoofs are fields by which a client may claim to be another, or to ask for
// something else. Servers fold "-", "_" and "." in names, so each name is sent in
// all three forms.
func spoofs() []string {
	values := map[string][]string{
		"X-Forwarded-For":           {"203.0.113.7", "203.0.113.7, 127.0.0.1", "unknown", ""},
		"X-Real-IP":                 {"203.0.113.7"},
		"X-Client-IP":               {"203.0.113.7"},
		"Forwarded":                 {"for=203.0.113.7;host=other.example", "for=\"[2001:db8::7]\""},
		"X-Original-URI":            {"/other", "", "http://other.example/other"},
		"X-Original-URL":            {"/other"},
		"X-Original-Method":         {"PUT", ""},
		"X-Original-Host":           {"other.example"},
		"X-Forwarded-Uri":           {"/other", ""},
		"X-Forwarded-Method":        {"PUT", ""},
		"X-Forwarded-Host":          {"other.example", ""},
		"X-Forwarded-Proto":         {"https"},
		"X-Forwarded-Port":          {"1"},
		"X-Envoy-External-Address":  {"203.0.113.7"},
		"X-Envoy-Original-Path":     {"/other"},
		"X-Envoy-Auth-Partial-Body": {"true"},
		"X-HTTP-Method-Override":    {"PUT"},
		"X-Rewrite-URL":             {"/other"},
		"CF-Connecting-IP":          {"203.0.113.7"},
		"Via":                       {"1.1 other"},
	}
	var all []string
	for name, of := range values {
		for _, value := range of {
			for _, by := range []string{"-", "_", "."} {
				alias := strings.ReplaceAll(name, "-", by)
				all = append(all, fmt.Sprintf("%s: %s\r\n", alias, value), fmt.Sprintf("%s: %s\r\n%s: %[2]s\r\n", alias, value, strings.ToLower(alias)))
			}
		}
		all = append(all, fmt.Sprintf("Connection: %s\r\n", name))
	}
	return all
}

// TestIdentity counts by everything that a rule may see of a request. Whoever asks
// again is denied, whatever it claims; whoever differs in one part is not.
func TestIdentity(t *testing.T) {
	eachFront(t, nil, func(t *testing.T, f *front) {
		app, l, addr := f.up(t, "rules: [{name: who, key: [ip, method, host, path], rate: 1/h, burst: 1, strict: true, "+
			"match: {host: \"*.example\", path: /of/*, method: [GET, POST]}}]\n", options{})
		ask := func(from, method, host, path, fields string) int {
			status, _ := send(t, from, addr, method+" "+path+" HTTP/1.1\r\nHost: "+host+"\r\nContent-Length: 0\r\n"+fields+"\r\n")
			return status
		}
		for _, who := range [][4]string{
			{"127.0.0.2", "GET", "a.example", "/of/a"},
			{"127.0.0.3", "GET", "a.example", "/of/a"},
			{"127.0.0.2", "POST", "a.example", "/of/a"},
			{"127.0.0.2", "GET", "b.example", "/of/a"},
			{"127.0.0.2", "GET", "a.example", "/of/b"},
		} {
			if status := ask(who[0], who[1], who[2], who[3], ""); status != 200 {
				t.Errorf("%q: got %d, as if somebody else had asked before", who, status)
			}
			if status := ask(who[0], who[1], who[2], who[3]+"?again", ""); status != 429 {
				t.Errorf("%q again: got %d", who, status)
			}
		}
		if status := ask("127.0.0.2", "GET", "a.example", "/elsewhere", ""); status != 200 {
			t.Errorf("a path without a rule: got %d", status)
		}
		// Another host in the target than in Host: what is counted is what the app sees.
		if status := ask("127.0.0.4", "GET", "host.example", "http://target.example/of/both", ""); status == 200 {
			seen := app.requests("GET /of/both ")
			if len(seen) != 1 {
				t.Fatalf("the app saw %q", seen)
			}
			host := seen[0][strings.LastIndexByte(seen[0], ' ')+1:]
			if status := ask("127.0.0.4", "GET", host, "/of/both", ""); status != 429 {
				t.Errorf("the app saw host %s, which was not counted: got %d", host, status)
			}
		}
		// What follows a request on its connection is not taken for what the front says.
		for _, method := range []string{"FOO", "GET", "CONNECT"} {
			first := method + " /of/a HTTP/1.1\r\nHost: a.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
			seen := len(app.requests("GET /of/a "))
			c := dial(t, "127.0.0.2", addr)
			_, err := io.WriteString(c, first+"GET /of/a HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: 203.0.113.7\r\nConnection: close\r\n\r\n")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, c) // until all are answered, or the front breaks off
			c.Close()
			if n := len(app.requests("GET /of/a ")); n > seen {
				t.Errorf("behind %s on a connection the app saw %d requests", method, n-seen)
			}
		}
		if isServer(f) { // the app is told who the client is, too
			for i, fields := range spoofs() {
				path := fmt.Sprint("/elsewhere/", i)
				if status := ask("127.0.0.2", "GET", "a.example", path, fields); status != 200 {
					continue // refused by the server
				}
				if seen := app.requests("GET " + path + " "); len(seen) != 1 || !strings.Contains(seen[0], `["127.0.0.2`) {
					t.Errorf("%q: the app saw %q", fields, seen)
				}
			}
		}
		counted, seen := l.allowed(), len(app.requests(""))
		for _, fields := range spoofs() {
			if status := ask("127.0.0.2", "GET", "a.example", "/of/a", fields); status < 400 || status > 431 {
				t.Errorf("%q: got %d", fields, status)
			}
		}
		if l.allowed() != counted || len(app.requests("")) != seen {
			t.Errorf("spoofed fields had %d requests admitted, the app saw %d", l.allowed()-counted, len(app.requests(""))-seen)
		}
	})
}
