package proxy

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/policy"
)

// cgi is the variable in which applications find a field, as Apache's http2env makes it.
func cgi(name string) string {
	return "HTTP_" + strings.ToUpper(regexp.MustCompile(`[^A-Za-z0-9]`).ReplaceAllString(name, "_"))
}

// headsOf is an upstream that sends the head of each request to the channel.
func headsOf(t *testing.T) (addr string, heads <-chan []string) {
	t.Helper()
	all := make(chan []string, 16)
	return serveRaw(t, func(c net.Conn, _ int) {
		for r := bufio.NewReader(c); ; {
			var head []string
			for {
				line, err := r.ReadString('\n')
				if err != nil {
					return
				}
				if line = strings.TrimSpace(line); line == "" {
					break
				}
				head = append(head, line)
			}
			all <- head
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	}), all
}

// reading are rules that read fields in every way there is.
func reading(o *standOptions) {
	one := func(i int, r policy.RuleSpec) policy.RuleSpec {
		r.Limit = settings().Rules[0].Limit
		r.Limit.Name, r.Limit.Rate.N, r.Limit.Burst = fmt.Sprint("rule", i), 1e6, 1e6
		if r.Key == nil {
			r.Key = []policy.KeyPart{{Kind: policy.KeyIP}}
		}
		return r
	}
	values := func(name string) []policy.HeaderMatch {
		return []policy.HeaderMatch{{Name: name, Values: []string{"*"}}}
	}
	o.settings = policy.Settings{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, Rules: []policy.RuleSpec{
		one(0, policy.RuleSpec{Key: []policy.KeyPart{{Kind: policy.KeyHeader, Name: "X-Api-Key"}}}),
		one(1, policy.RuleSpec{Match: policy.Match{Headers: values("x-tenant-id")}}),
		one(2, policy.RuleSpec{Match: policy.Match{Not: policy.Exemption{Headers: values("X-Not-Me")}}}),
		one(3, policy.RuleSpec{CostFrom: policy.CostSource{Header: "X-What-It-Costs"}}),
		one(4, policy.RuleSpec{Key: []policy.KeyPart{{Kind: policy.KeyHeader, Name: "X_Own"}}}),
	}}
}

// guarded are the fields that rules above, framing and forwarding rest on.
var guarded = []string{
	"X-Api-Key", "X-Tenant-Id", "X-Not-Me", "X-What-It-Costs", "X_Own", "Content-Length", "Transfer-Encoding", "Keep-Alive", "HTTP2-Settings",
	"X-Forwarded-For", "X-Forwarded-Anything", "X-Real-IP", "X-Original-Host", "X-Original-For", "X-Original-Proto", "X-Original-URL", "X-Rewrite-URL",
}

var forwards = regexp.MustCompile(`^HTTP_(X_FORWARDED_|X_ORIGINAL_|X_REAL_IP$|X_REWRITE_URL$)`)

// No variable of an application behind CGI is other than what the rules have read, and what
// looks like nothing is passed on.
func TestLookAlikes(t *testing.T) {
	t.Parallel()
	app, heads := headsOf(t)
	s := start(t, reading, app)
	exact := map[string]string{}
	for _, name := range guarded {
		exact[cgi(name)] = strings.ToLower(name)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, from := range []string{"127.0.0.1", "127.0.0.2"} {
		for range testkit.Size(300, 20000) {
			// Up to four fields: as they are, with other characters between the words, or others'.
			var sent []string
			for range 1 + rng.IntN(4) {
				name := []byte(guarded[rng.IntN(len(guarded))])
				for i, c := range name {
					if (c == '-' || c == '_') && rng.IntN(2) == 0 {
						name[i] = "-_.!~'*+|^`#$%&"[rng.IntN(15)]
					}
				}
				if rng.IntN(4) == 0 {
					name = append(name, "_2"...)
				}
				if plain(name) && slices.Contains([]string{"content-length", "transfer-encoding"}, strings.ToLower(string(name))) {
					continue // a bad request
				}
				sent = append(sent, string(name))
			}
			stream := "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
			for _, name := range sent {
				stream += name + ": 7\r\n"
			}
			answer, err := exchangeFrom(t, from, s.addr, stream+"\r\n")
			must(t, err)
			if !strings.HasPrefix(answer, "HTTP/1.1 200 ") {
				t.Fatalf("%q: %q", stream, answer)
			}
			head := <-heads
			for _, line := range head[1:] {
				name, value, _ := strings.Cut(line, ": ")
				if want := exact[cgi(name)]; value == "7" && (want != "" && want != strings.ToLower(name)) {
					t.Errorf("%q reached the application as %s", line, cgi(name))
				}
				if value == "7" && from == "127.0.0.1" && forwards.MatchString(cgi(name)) {
					t.Errorf("%q of nobody who is trusted reached the application", line)
				}
			}
			for _, name := range sent {
				if exact[cgi(name)] == "" && !forwards.MatchString(cgi(name)) && !slices.Contains(head, name+": 7") {
					t.Errorf("%q looks like no other field, and was dropped", name)
				}
			}
		}
	}
}

// With refuse a look-alike is answered 400, and the servers do not see the request.
func TestRefusedLookAlikes(t *testing.T) {
	t.Parallel()
	app, heads := headsOf(t)
	s := start(t, func(o *standOptions) { reading(o); o.refuse = true }, app)
	for name, refused := range map[string]bool{
		"X_Api_Key": true, "x.real.ip": true, "X-Forwarded_For": true, "X-Own": true, "Transfer_Encoding": true,
		"X-Api-Key": false, "x_own": false, "X_Other": false, "X-Real-IP": false,
	} {
		answer, err := exchangeRaw(t, s.addr, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"+name+": 1\r\n\r\n")
		must(t, err)
		if got := strings.HasPrefix(answer, "HTTP/1.1 400 "); got != refused {
			t.Errorf("%s: %q", name, answer)
		}
		if !refused {
			<-heads
		}
	}
	if n := s.counts.failures[failLookAlike].Load(); n != 5 {
		t.Errorf("%d refused requests were counted", n)
	}
	if len(heads) > 0 {
		t.Errorf("a refused request reached the application: %q", <-heads)
	}
}

// Trailers that an application may add to the fields that rules have read do not come through, by any
// of their names.
func TestGuardedTrailers(t *testing.T) {
	t.Parallel()
	s := startSmuggling(t, reading)
	for cut := range 3 { // the end of the body comes with the head, or later
		var trailers strings.Builder
		for _, name := range guarded {
			fmt.Fprintf(&trailers, "%s: 1\r\n%s: 2\r\n%s: 3\r\n", name, strings.ReplaceAll(name, "-", "_"), strings.ToLower(name))
		}
		head := "POST /a HTTP/1.1\r\nHost: a\r\nX-Api-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"
		v := s.compare(t, head+"0\r\nX-Sum: 1\r\n"+trailers.String()+"X-Last: 2\r\n\r\n", cut)
		if len(v.whole) != 1 || v.whole[0].Trailers != "X-Sum: 1\r\nX-Last: 2\r\n" {
			t.Errorf("cut %d: %+v", cut, v)
		}
	}
}
