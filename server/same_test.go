package server

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/streams"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/conn"
)

// inputs is the number of random streams of TestSameAnswers. 1000000 take about
// five minutes.
var inputs = flag.Int("inputs", testkit.Size(1000, 3000), "streams that TestSameAnswers makes up")

// twins are two servers of the same settings: one answers simple requests at the
// door and as residents, and fasthttp serves all of the other.
type twins struct {
	servers [2]*Server
	style   int // of styles, and so the listener to ask
}

// styles are the ways in which listeners answer: all header sets, on denials and on all
// answers, and all kinds of bodies.
var styles = []Listener{
	{},
	{Headers: []HeaderSet{RateLimitHeaders, RateLimitLegacyHeaders, XRateLimitHeaders, XRateLimitLimitHeaders}, HeadersOn: HeadersAlways, DenyStatus: 403},
	{Headers: []HeaderSet{NoHeaders}, Denial: Denial{ContentType: "text/html", Body: "<p>again in {{retry_after}} s, {{retry_after}}"}},
	{Headers: []HeaderSet{XRateLimitLimitHeaders}, HeadersOn: HeadersAlways, Denial: Denial{ContentType: "text/plain; charset=utf-8", Body: "busy\n"}},
	{Headers: []HeaderSet{RateLimitLegacyHeaders}, HeadersOn: HeadersAlways, Denial: Denial{ContentType: "text/html"}},
	{HeadersOn: HeadersAlways, Denial: Denial{ContentType: "text/html", Body: "<p>{{retry_after}}\n" + strings.Repeat("x", 15<<10)}},
}

func newTwins(t testing.TB, change func(*policy.Settings)) *twins {
	t.Helper()
	set := policy.Settings{
		Deny: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")},
		Rules: []policy.RuleSpec{{
			Limit: fastlimit.RuleConfig{Name: "per-ip", Rate: fastlimit.Rate{N: 1_000_000, Per: time.Second}},
			Key:   []policy.KeyPart{{Kind: policy.KeyIP}},
		}, {
			Limit: fastlimit.RuleConfig{Name: "per-key", Rate: fastlimit.Rate{N: 1, Per: time.Hour}, Burst: 3, Strict: true},
			Key:   []policy.KeyPart{{Kind: policy.KeyHeader, Name: "X-Api-Key"}, {Kind: policy.KeyPath}},
		}},
	}
	change(&set)
	w := &twins{}
	for i := range w.servers {
		c := newConfig(t, set)
		c.DecideAPI = true
		c.Listeners = slices.Clone(styles)
		for j := range c.Listeners {
			c.Listeners[j].Address = "127.0.0.1:0"
		}
		w.servers[i] = twin(t, c, i == 1)
		w.servers[i].SetBans((*policy.Bans)(nil).With(netip.MustParsePrefix("203.0.113.0/24"), time.Now().Add(time.Hour)))
	}
	return w
}

// twin serves without residents if asked to.
func twin(t testing.TB, c Config, fasthttpOnly bool) *Server {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.Listeners {
		if fasthttpOnly {
			h := s.decide.Handlers(i)
			h.Answer = nil
			s.traffic.Listeners[i] = conn.NewListener(s.traffic.Conns, conn.Options{}, h)
		}
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	for _, l := range s.traffic.Listeners {
		go l.Accept()
	}
	t.Cleanup(func() {
		s.traffic.Conns.CloseAll()
		for _, l := range s.traffic.Listeners {
			l.Close(time.Now())
		}
	})
	return s
}

// timed are the parts of an answer that depend on its time.
var timed = regexp.MustCompile(`(?m)^((?:Date|Retry-After|RateLimit-Reset|X-RateLimit-(?:Reset|Clear|Retry-After)): |RateLimit: .*;t=|<p>).*?(\r|)$`)

// ask sends the pieces of a stream and returns all that comes back.
func (w *twins) ask(t testing.TB, which int, pieces [][]byte, pause bool) []byte {
	c, err := net.Dial("tcp", w.servers[which].Addrs()[w.style].String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	for i, p := range pieces {
		if i > 0 && pause {
			time.Sleep(100 * time.Microsecond)
		}
		_, _ = c.Write(p) // it may have been closed by then
	}
	_ = c.(*net.TCPConn).CloseWrite()
	got, err := io.ReadAll(c)
	if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		t.Errorf("server %d does not end %q", which, bytes.Join(pieces, nil))
	}
	return timed.ReplaceAll(got, []byte("${1}x$2"))
}

// outcome is what a server made of a stream: its answers and what it counted.
type outcome struct{ answers, counts string }

// counts are all that a server counts of requests, but the hint at a proxy that is not
// trusted: before fasthttp the gate reads ahead.
func (s *Server) counts() []uint64 {
	d, n := s.decide, s.decide.Requests()
	all := []uint64{n.Allowed, n.Denied, n.ListAllowed, n.ListDenied, n.Banned, d.Unnamed()}
	for _, r := range s.config().Limiter.Rules() {
		stats := r.Stats()
		all = append(append(all, stats.Allowed[:]...), stats.Denied[:]...)
	}
	bad := d.Bad()
	for _, reason := range slices.Sorted(maps.Keys(bad)) {
		all = append(all, bad[reason])
	}
	return all
}

// badRequest is an answer with the status 400.
var badRequest = regexp.MustCompile(`HTTP/1\.1 400 (?s:.)*?\r\n\r\n\{.*?\}`)

func (w *twins) outcome(t testing.TB, which int, pieces [][]byte, pause, strict bool) outcome {
	before := w.servers[which].counts()
	answers := w.ask(t, which, pieces, pause)
	counted := w.servers[which].counts()
	for i := range counted {
		counted[i] -= before[i]
	}
	if !strict {
		answers = badRequest.ReplaceAll(answers, []byte("400"))
		for i := len(counted) - len(w.servers[which].decide.Bad()) + 1; i < len(counted); i++ {
			counted[i-1], counted[i] = 0, counted[i-1]+counted[i]
		}
	}
	return outcome{string(answers), fmt.Sprint(counted)}
}

// same sends a stream to both, and wants the same outcome. Which fault fasthttp finds
// first in a bad request depends on how much of it has been read; so the reason for a 400
// counts only where the stream is read at once. Where it comes in pieces, whether a bad
// body is found before its head is answered depends on that too: the outcome of one
// server must then be one that the other comes to as well, and same returns false.
func (w *twins) same(t testing.TB, stream []byte, cut int, pause bool) bool {
	cut = min(cut, len(stream))
	pieces := [][]byte{stream[:cut], stream[cut:]}
	strict := cut == len(stream) && len(stream) <= 4<<10
	a, b := w.outcome(t, 0, pieces, pause, strict), w.outcome(t, 1, pieces, pause, strict)
	for n := 0; a != b; n++ {
		if cut == len(stream) || n == 50 {
			t.Fatalf("cut at %d:\nresident %q\nfasthttp %q\nfor %q", cut, a, b, stream)
		}
		again := []outcome{w.outcome(t, 0, pieces, n%2 > 0, false), w.outcome(t, 1, pieces, n%2 > 0, false)}
		if again[0] == b || again[1] == a {
			return false // one of them may have charged what the other has not
		}
	}
	return true
}

// Where connections are nearly full, a denial ends its connection and is counted,
// also if the client wants it to end anyway.
func TestSameWhenCrowded(t *testing.T) {
	t.Parallel()
	for _, lines := range []string{"", "Connection: close\r\n"} {
		for _, fasthttpOnly := range []bool{false, true} {
			c := newConfig(t, policy.Settings{Rules: []policy.RuleSpec{{
				Limit: fastlimit.RuleConfig{Name: "per-ip", Rate: fastlimit.Rate{N: 1, Per: time.Hour}, Burst: 1, Strict: true},
				Key:   []policy.KeyPart{{Kind: policy.KeyIP}},
			}}})
			c.Connections.Max = 1
			w := twins{servers: [2]*Server{twin(t, c, fasthttpOnly)}}
			got := string(w.ask(t, 0, [][]byte{[]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n" + lines + "\r\n")}, false))
			if n := w.servers[0].traffic.Conns.Dismissed()["denied"]; n != 1 || strings.Count(got, " 429 ") != 1 || strings.Count(got, "Connection: close") != 1 {
				t.Errorf("fasthttp %v, %q: %d counted\n%s", fasthttpOnly, lines, n, got)
			}
		}
	}
}

func direct(*policy.Settings) {}

func proxied(set *policy.Settings) {
	set.TrustedProxies, set.OriginalRequest, set.OnUnnamed = loopback(), policy.OriginalXOriginal, policy.UnnamedSkip
}

// The door, residents and fasthttp give the same answers, byte for byte, and charge the same:
// for the whole corpus, and for streams made up of what is simple and what is not.
func TestSameAnswers(t *testing.T) {
	t.Parallel()
	all := streams.Corpus()
	var wait sync.WaitGroup
	var atDoor atomic.Uint64
	workers, part := 2*runtime.GOMAXPROCS(0), 1
	if testing.Short() {
		part = 4
	}
	for n := range workers {
		kind := []func(*policy.Settings){direct, proxied}[n%2]
		w := newTwins(t, kind)
		r := rand.New(rand.NewPCG(7, uint64(n))) // the same each time
		wait.Go(func() {
			for i := n / 2; i < len(all) && !t.Failed(); i += part * workers / 2 {
				w.style = i % len(styles)
				w.same(t, []byte(all[i].Stream), len(all[i].Stream), false)
				w.same(t, closing(all[i].Stream), len(closing(all[i].Stream)), false)
			}
			for range *inputs / workers / part {
				if t.Failed() {
					return
				}
				s := madeUp(r)
				w.style = r.IntN(len(styles))
				cut := min(r.IntN(2*len(s)), len(s))
				if !w.same(t, s, cut, r.IntN(50) == 0) {
					w = newTwins(t, kind)
				}
			}
			n, _ := w.servers[0].traffic.Conns.Accepted()
			atDoor.Add(n)
		})
	}
	wait.Wait()
	if n := int(atDoor.Load()); n < *inputs/100 && !t.Failed() {
		t.Errorf("%d of %d streams were answered at the door", n, *inputs)
	}
}

// closing has the first request of a stream ask to close, as one that is answered at the door does.
func closing(stream string) []byte {
	line, rest, _ := strings.Cut(stream, "\r\n")
	return []byte(line + "\r\nConnection: close\r\n" + rest)
}

// madeUp is a stream of a few requests, of which some are changed.
func madeUp(r *rand.Rand) []byte {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	var b strings.Builder
	if r.IntN(4) == 0 { // soon over its limit
		b.WriteString("GET / HTTP/1.1\r\nHost: a\r\nX-Api-Key: one\r\n\r\n")
	}
	for range 1 + r.IntN(4) {
		b.WriteString(pick("GET", "GET", "GET", "GET", "POST", "HEAD", "OPTIONS", "PUT", "get", "CONNECT"))
		b.WriteString(" " + pick("/", "/", "/a", "/a?b=c", "/a/../b", "//x", "/%2e", "/a://b", "//[://x", "http://b/", "*", "/v1/decide", "/#", ""))
		b.WriteString(" " + pick("HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0") + pick("\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\n"))
		if r.IntN(20) > 0 {
			b.WriteString(pick("Host: a\r\n", "Host: shop.example.com:80\r\n", "host: [::1]\r\n", "Host: a b\r\n", "Host: \r\n", "Host: a\r\nHost: b\r\n", "Host: A.b.\r\n", "Host: a\r\n"))
		}
		for range r.IntN(6) {
			b.WriteString(pick("X-Api-Key: one\r\n", fmt.Sprintf("X-Api-Key: %d\r\n", r.IntN(100_000)), fmt.Sprintf("X-Api-Key: %d\r\n", r.IntN(1000)), "x-api-key: one\r\nX-API-Key: two\r\n", "X-Forwarded-For: 192.0.2.7\r\n", "X-Forwarded-For: 198.51.100.9\r\n", "X-Forwarded-For: 203.0.113.9\r\n",
				"X-Forwarded-For: x\r\n", "X-Original-Uri: /b\r\n", "X-Original-URI: /c?d\r\nX-Original-Method: POST\r\n", "Forwarded: for=1\r\n", "Connection: close\r\n",
				"Connection: keep-alive\r\n", "connection: Close, x\r\n", "Connection: upgrade\r\nUpgrade: websocket\r\n", "Expect: 100-continue\r\n", "Content-Length: 0\r\n", "Content-Length: 5\r\n",
				"Transfer-Encoding: chunked\r\n", "TE: trailers\r\n", "Trailer: X\r\n", "Accept: */*\r\n", "Cookie: sid=1; b=2\r\n", "X y: z\r\n", "X: a\r\n b\r\n", "X:\x00\r\n", "User-Agent: "+strings.Repeat("m", r.IntN(100))+"\r\n",
				"X-Long: "+strings.Repeat("x", 4000)+"\r\n", "Accept: */*\r\nAccept-Language: en\r\nReferer: https://a/b\r\n"))
		}
		b.WriteString("\r\n" + pick("", "", "", "", "", "", "hello", "5\r\nhello\r\n0\r\n\r\n", "\r\n"))
	}
	s := []byte(b.String())
	if r.IntN(3) == 0 {
		one, _, _ := strings.Cut(b.String(), "\r\n\r\n")
		s = closing(one + "\r\n\r\n")
	}
	for r.IntN(6) == 0 {
		switch at := r.IntN(len(s)); r.IntN(3) {
		case 0:
			s[at] ^= byte(1 << r.IntN(8))
		case 1:
			s = s[:at+1]
		default:
			s = append(s[:at:at], append([]byte(pick("\r", "\n", "\r\n", " ", "\x00", ":")), s[at:]...)...)
		}
	}
	return s
}

// FuzzSameAnswers is TestSameAnswers for any bytes.
func FuzzSameAnswers(f *testing.F) {
	for n, i := range streams.Corpus() {
		if n%10 == 0 || flag.Lookup("test.fuzz").Value.String() != "" { // else TestSameAnswers has them all
			f.Add([]byte(i.Stream), false)
			f.Add(closing(i.Stream), true)
		}
	}
	both := map[bool]*twins{false: newTwins(f, direct), true: newTwins(f, proxied)}
	f.Fuzz(func(t *testing.T, stream []byte, proxied bool) {
		w := both[proxied]
		w.style = len(stream) % len(styles)
		w.same(t, stream, len(stream), false)
	})
}
