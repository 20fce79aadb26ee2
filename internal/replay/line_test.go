package replay

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/policy"
)

const stamp = "[17/May/2015:10:05:03 +0000]"

func TestParseLine(t *testing.T) {
	t.Parallel()
	at := time.Date(2015, 5, 17, 10, 5, 3, 0, time.UTC)
	for _, tt := range []struct {
		name, line                              string
		time                                    time.Time
		client                                  string
		method, target, vhost, referer, browser string
	}{
		{
			name: "common", line: `192.0.2.7 - - ` + stamp + ` "GET /a?b=c HTTP/1.1" 200 203023`,
			client: "192.0.2.7", method: "GET", target: "/a?b=c",
		}, {
			name: "combined", line: `192.0.2.7 - bob ` + stamp + ` "POST /a HTTP/1.0" 200 - "http://example.com/" "curl/8"`,
			client: "192.0.2.7", method: "POST", target: "/a", referer: "http://example.com/", browser: "curl/8",
		}, {
			name: "absent fields", line: `192.0.2.7 - - ` + stamp + ` "-" 408 - "-" "-"`,
			client: "192.0.2.7",
		}, {
			name: "more fields", line: `192.0.2.7 - - ` + stamp + ` "GET / HTTP/2.0" 200 12 "-" "x" "203.0.113.9" rt=0.1`,
			client: "192.0.2.7", method: "GET", target: "/", browser: "x",
		}, {
			name: "one more field only", line: `192.0.2.7 - - ` + stamp + ` "GET / HTTP/2.0" 200 12 0.003`,
			client: "192.0.2.7", method: "GET", target: "/",
		}, {
			name: "escapes", line: `192.0.2.7 - - ` + stamp + ` "GET /\x22\\\"\t HTTP/1.1" 200 1 "\xzz" "a \"quoted\" one\n"`,
			client: "192.0.2.7", method: "GET", target: "/\"\\\"\t", referer: "xzz", browser: "a \"quoted\" one\n",
		}, {
			name: "IPv6", line: `2001:db8::7 - - ` + stamp + ` "GET / HTTP/1.1" 200 1`,
			client: "2001:db8::7", method: "GET", target: "/",
		}, {
			name: "IPv4 in IPv6, zone", line: `::ffff:192.0.2.7%eth0 - - ` + stamp + ` "GET / HTTP/1.1" 200 1`,
			client: "192.0.2.7", method: "GET", target: "/",
		}, {
			name: "vhost_combined", line: `WWW.example.com:443 192.0.2.7 - - ` + stamp + ` "GET / HTTP/1.1" 200 1 "-" "x"`,
			client: "192.0.2.7", method: "GET", target: "/", vhost: "WWW.example.com:443", browser: "x",
		}, {
			name: "zone east", line: `192.0.2.7 - - [17/May/2015:12:35:03 +0230] "GET / HTTP/1.1" 200 1`,
			client: "192.0.2.7", method: "GET", target: "/",
		}, {
			name: "zone west over midnight", line: `192.0.2.7 - - [16/May/2015:23:05:03 -1100] "GET / HTTP/1.1" 200 1`,
			client: "192.0.2.7", method: "GET", target: "/",
		}, {
			name: "user with blanks and brackets", line: `192.0.2.7 - a [b] c ` + stamp + ` "GET / HTTP/1.1" 200 1`,
			client: "192.0.2.7", method: "GET", target: "/",
		}, {
			name: "TLS on a plain port", line: `192.0.2.7 - - ` + stamp + ` "\x16\x03\x01\x00 \xff" 400 0 "-" "-"`,
			client: "192.0.2.7",
		}, {
			name: "HTTP/0.9", line: `192.0.2.7 - - ` + stamp + ` "GET /old page" 200 1`,
			client: "192.0.2.7", method: "GET", target: "/old page",
		}, {
			name: "cut off in the last field", line: `192.0.2.7 - - ` + stamp + ` "GET / HTTP/1.1" 200 1 "-" "Mozilla/5.0 (co`,
			client: "192.0.2.7", method: "GET", target: "/", browser: "Mozilla/5.0 (co",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var p parser
			l, err := p.parse([]byte(tt.line))
			if err != nil {
				t.Fatal(err)
			}
			if l.Time != at.UnixMicro() {
				t.Errorf("time %v, want %v", time.UnixMicro(l.Time).UTC(), at)
			}
			got := []string{l.Client.String(), string(l.Method), string(l.Target), string(l.VHost), string(l.Referer), string(l.UserAgent)}
			want := []string{tt.client, tt.method, tt.target, tt.vhost, tt.referer, tt.browser}
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("got %q\nwant %q", got, want)
					break
				}
			}
		})
	}
}

func TestParseLineRejects(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		line string
		want error
	}{
		{"", errNoClient},
		{"not a log line at all", errNoClient},
		{`host.example.com - - ` + stamp + ` "GET / HTTP/1.1" 200 1`, errNoClient},
		{`0.0.0.0 - - ` + stamp + ` "GET / HTTP/1.1" 200 1`, errNoClient},
		{`:: - - ` + stamp + ` "GET / HTTP/1.1" 200 1`, errNoClient},
		{`192.0.2.700 - - ` + stamp + ` "GET / HTTP/1.1" 200 1`, errNoClient},
		{`192.0.2.7`, errNoTime},
		{`192.0.2.7 - - [17/May/2015:10:05:03] "GET / HTTP/1.1" 200 1`, errNoTime},
		{`192.0.2.7 - - [31/Feb/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1`, errNoTime},
		{`192.0.2.7 - - [17/Mai/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1`, errNoTime},
		{`192.0.2.7 - - ` + stamp, errNoRequest},
		{`192.0.2.7 - - ` + stamp + ` "GET / HT`, errNoRequest},
		{`192.0.2.7 - - ` + stamp + ` "GET /\"`, errNoRequest},
		{`192.0.2.7 - - ` + stamp + ` "GET / HTTP/1.1"`, errNoStatus},
		{`192.0.2.7 - - ` + stamp + ` "GET / HTTP/1.1" 200`, errNoStatus},
		{`192.0.2.7 - - ` + stamp + ` "GET / HTTP/1.1" two 1`, errNoStatus},
	} {
		var p parser
		if _, err := p.parse([]byte(tt.line)); !errors.Is(err, tt.want) {
			t.Errorf("%q: error %v, want %v", tt.line, err, tt.want)
		}
	}
}

// The time stamp of one line must not leak into the next.
func TestParserIsReusable(t *testing.T) {
	t.Parallel()
	var p parser
	parse := func(stamp string) (logLine, error) {
		return p.parse([]byte(`192.0.2.7 - - ` + stamp + ` "GET /\x41 HTTP/1.1" 200 1`))
	}
	first, err1 := parse(stamp)
	again, err2 := parse(stamp)
	_, bad := parse("[17/Mai/2015:10:05:03 +0000]")
	next, err3 := parse("[17/May/2015:10:05:04 +0000]")
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	if bad == nil || again.Time != first.Time || next.Time != first.Time+second || string(next.Target) != "/A" {
		t.Errorf("times %d, %d, %d, error %v, target %q", first.Time, again.Time, next.Time, bad, next.Target)
	}
}

// Once the buffers have grown and its second was seen, a line costs the one
// allocation of netip's parser.
func TestParseAllocatesOnce(t *testing.T) {
	var p parser
	line := []byte(`192.0.2.7 - - ` + stamp + ` "GET /\x41 HTTP/1.1" 200 1 "\"" "curl"`)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := p.parse(line); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("%v allocations a line, want 1", n)
	}
}

func FuzzParseLine(f *testing.F) {
	for _, s := range []string{
		`192.0.2.7 - - ` + stamp + ` "GET /a?b=c HTTP/1.1" 200 203023 "-" "curl/8"`,
		`www.example.com:80 2001:db8::1 - bob ` + stamp + ` "\x16\x03\"" 400 - "\\`,
		`192.0.2.7 - a [b ` + stamp + ` "CONNECT x:443 HTTP/1.1" - -`,
		"\x00\x00", ` [`, `1.1.1.1 [`, strings.Repeat("[", 100),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		line := string(b)
		var p parser
		l, err := p.parse(b)
		if string(b) != line {
			t.Fatal("the line was changed")
		}
		if err != nil {
			return
		}
		if !l.Client.IsValid() || l.Client.Is4In6() || l.Client.Zone() != "" || l.Client.IsUnspecified() {
			t.Fatalf("client %v", l.Client)
		}
		// What was parsed survives the way through a record.
		all := needs{{Kind: policy.KeyMethod}, {Kind: policy.KeyHost}, {Kind: policy.KeyPath}, header("Referer"), header("User-Agent")}
		in, out := fields{needs: all}, fields{needs: all}
		in.fill(&l, new(policy.Engine), new(policy.Scratch))
		out.unpack(in.pack(nil))
		for i := range all {
			v := [][]byte{in.values[i], out.values[i]}
			if string(v[0]) != string(v[1]) || (v[0] == nil) != (v[1] == nil) {
				t.Fatalf("packed %q, got %q", v[0], v[1])
			}
		}
	})
}
