package recipes_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/policy"
)

// spellings are targets that some server may read as /login, /admin/ or /static/.
func spellings(n int) (all []string) {
	before := []string{
		"/", "//", "/./", "/x/../", "/%2e/", "/x/%2e%2e/", "/%2f", "/%2F", "/x%2f..%2f", "/x%2f../", "/x/..%2f", "/.%2f", "/x;/../", "/x/..;/", `\`, `/x%5c..%5c`,
		"http://h/", "http://h/%2f", "/x/%2f../../", "/x%2fy/../../", "/%252f", "/static/../", "/static/..%2f", "/static%2f..%2f", "/static/x;/../../", "/static//../..//", "/%c0%af",
	}
	after := []string{"", "/", "?x", "#x", ";x", "%3fx", "%20", ".", "/.", "/x/..", "%2f", "%2f.", "/x%2f..", "%2fx%2f..", "%2f%2e", "//", "%5c", "/..;/x", "%00"}
	for _, name := range []string{"login", "lo%67in", "admin", "admin/x", "admin%2fx", `admin\x`, "static/x"} {
		for _, b := range before {
			for _, a := range after {
				all = append(all, b+name+a)
			}
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"/", "/", "login", "admin", "static", "x", "..", ".", "%2f", "%2e", `\`, "%5c", ";", ";a=b", "%20", "//", "%2F..", "%c0%af", "%6c"}
	for len(all) < n {
		target := "/"
		for range 1 + rng.IntN(8) {
			target += pieces[rng.IntN(len(pieces))]
		}
		all = append(all, target)
	}
	return all
}

// Whatever a web server serves as /login is counted by a rule for /login, and what it serves
// as anything but /static/ by a rule for all else, however it was spelled.
func TestNoSpellingEvades(t *testing.T) {
	t.Parallel()
	limit := func(name string) fastlimit.RuleConfig {
		return fastlimit.RuleConfig{Name: name, Rate: fastlimit.Rate{N: 1, Per: 1e9}}
	}
	all := []policy.KeyPart{{Kind: policy.KeyGlobal}}
	set := policy.Settings{Rules: []policy.RuleSpec{
		{Limit: limit("LOGIN"), Key: all, Match: policy.Match{Paths: []string{"/login"}}},
		{Limit: limit("ADMIN"), Key: all, Match: policy.Match{Paths: []string{"/admin/*"}}},
		{Limit: limit("rest"), Key: all, Match: policy.Match{Not: policy.Exemption{Paths: []string{"/static/*"}}}},
	}}
	lim, err := fastlimit.New(fastlimit.Config{Rules: set.Limits(), Memory: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := policy.New(lim, set)
	if err != nil {
		t.Fatal(err)
	}
	id, err := policy.NewIdentity(set)
	if err != nil {
		t.Fatal(err)
	}
	targets := spellings(testkit.Size(8_000, 100_000))
	for name, start := range readers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			served, exempt, evaded := map[string]int{}, 0, 0
			var s policy.Scratch
			ask := reader(t, start(t))
			for _, target := range targets {
				is := ask(strings.TrimPrefix(target, absolute[name]))
				served[is]++
				if is == "" { // refused, or told to go elsewhere
					continue
				}
				var r policy.Request
				in := policy.Incoming{Peer: netip.MustParseAddr("192.0.2.1"), Method: []byte("GET"), Target: []byte(target), Host: []byte("h")}
				if got := engine.Assemble(id, &in, &s, &r); got.Refused != policy.NotRefused {
					continue // nor does it reach the server
				}
				applies := map[string]bool{}
				for _, c := range engine.Applying(&r, &s) {
					applies[c.Rule.Name()] = true
				}
				if !applies["rest"] {
					exempt++
				}
				if bad := is != "STATIC" && !applies["rest"] || (is == "LOGIN" || is == "ADMIN") && !applies[is]; bad {
					if evaded++; evaded < 10 {
						t.Errorf("%q is served as %s, and read as %q: the rules %v apply", target, is, r.Path, applies)
					}
				}
			}
			t.Logf("%d targets: served %v; %d are exempt; %d evade", len(targets), served, exempt, evaded)
			if served["LOGIN"] < 20 || served["ADMIN"] < 20 || served["STATIC"] < 20 || exempt < 20 {
				t.Errorf("too little is served: %v, %d exempt", served, exempt)
			}
		})
	}
}

// reader returns what asks a server for the name of a resource, "" if it is none.
func reader(t *testing.T, addr string) (ask func(target string) string) {
	t.Helper()
	var c net.Conn
	var in *bufio.Reader
	t.Cleanup(func() {
		if c != nil {
			c.Close()
		}
	})
	return func(target string) string {
		if c == nil {
			var err error
			if c, err = net.Dial("tcp", addr); err != nil {
				t.Fatal(err)
			}
			in = bufio.NewReader(c)
		}
		_ = c.SetDeadline(testkit.Deadline(t)) // of an open socket
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", target)
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%q: %v", target, err)
		}
		body, _ := io.ReadAll(resp.Body)
		if resp.Close {
			c.Close()
			c = nil
		}
		if resp.StatusCode != http.StatusOK {
			return ""
		}
		return strings.TrimSpace(string(body))
	}
}
