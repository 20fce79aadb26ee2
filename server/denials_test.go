package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/policy"
)

// deny is a server that denies every request but the first of a client, and
// does not run: a test ends the seconds of its log.
func deny(t testing.TB, change ...func(*Config)) (*Server, *testkit.Log) {
	set := perIP()
	set.Rules[0].Limit.Burst = 1
	set.Rules[0].Limit.Rate.Per = time.Hour
	return denyWith(t, set, change...)
}

func denyWith(t testing.TB, set policy.Settings, change ...func(*Config)) (*Server, *testkit.Log) {
	t.Helper()
	logs := new(testkit.Log)
	c := newConfig(t, set)
	c.Logger = slog.New(slog.NewTextHandler(logs, nil))
	for _, f := range change {
		f(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s, logs
}

// from sends requests of a client straight to the handler.
func (s *Server) from(addr string, n int) {
	ctx := newContext(&net.TCPAddr{IP: net.ParseIP(addr), Port: 1})
	for range n {
		ctx.Response.Reset()
		s.decide.Handlers(0).Request(ctx)
	}
}

func TestDenialsAreOneLineForEachClientAndSecond(t *testing.T) {
	t.Parallel()
	s, logs := deny(t)
	s.from("192.0.2.1", 1001)
	s.from("192.0.2.2", 2)
	s.from("192.0.2.3", 1) // admitted
	if logs.String() != "" {
		t.Errorf("logged before the second was over: %s", logs)
	}
	s.endSecond()
	got := regexp.MustCompile(`(?m)^time=\S+ `).ReplaceAllString(logs.String(), "")
	want := `level=INFO msg=denied client=192.0.2.1 rule=per-ip key=192.0.2.1 stage=table retry_after=R count=1000 method=GET host=example.com path=/path
level=INFO msg=denied client=192.0.2.2 rule=per-ip key=192.0.2.2 stage=table retry_after=R count=1 method=GET host=example.com path=/path
`
	if r := regexp.MustCompile(`retry_after=(3600|3599\.\d{1,3}) `); r.ReplaceAllString(got, "retry_after=R ") != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	s.endSecond() // nothing happened
	if n := logs.Count("\n"); n != 2 {
		t.Errorf("%d lines:\n%s", n, logs)
	}
	s.from("192.0.2.1", 5)
	s.endSecond()
	if logs.Count("client=192.0.2.1 ") != 2 || logs.Count("count=5 ") != 1 {
		t.Errorf("the next second:\n%s", logs)
	}
}

func TestDenialsOfAListAndOfCompositeKeys(t *testing.T) {
	t.Parallel()
	set := perSecond()
	set.Rules[0].Limit.Burst = 1
	set.Rules[0].Key = []policy.KeyPart{{Kind: policy.KeyIP}, {Kind: policy.KeyMethod}}
	set.Deny = []netip.Prefix{netip.MustParsePrefix("192.0.2.7/32")}
	var out bytes.Buffer
	s, _ := denyWith(t, set, func(c *Config) { c.Logger = slog.New(slog.NewJSONHandler(&out, nil)) })
	s.from("192.0.2.1", 2)
	s.from("192.0.2.7", 2)
	s.endSecond()
	dec := json.NewDecoder(&out)
	for _, want := range []string{
		`{"client":"192.0.2.1","count":1,"host":"example.com","key":"192.0.2.1 GET","level":"INFO","method":"GET","msg":"denied","path":"/path","rule":"per-ip","stage":"table"}`,
		`{"client":"192.0.2.7","count":2,"host":"example.com","key":"","level":"INFO","method":"GET","msg":"denied","path":"/path","rule":"","stage":"list"}`,
	} {
		var line map[string]any
		if err := dec.Decode(&line); err != nil {
			t.Fatal(err)
		}
		if retry, ok := line["retry_after"].(float64); !ok || retry > 1 || (retry == 0) != (line["stage"] == "list") {
			t.Errorf("retry_after is %v", line["retry_after"])
		}
		delete(line, "retry_after")
		delete(line, "time")
		if got, _ := json.Marshal(line); string(got) != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

// At most 100 clients have a line, and none of the others is forgotten.
func TestDenialLinesAreBounded(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]int{0: 100, 100: 100, 7: 7, -1: 0} {
		s, logs := deny(t, func(c *Config) { c.DenialLogs = limit })
		for second := range 3 {
			for i := range 1000 {
				s.from(fmt.Sprintf("198.51.%d.%d", i/250, i%250), 3)
			}
			before := logs.Count("msg=denied")
			s.endSecond()
			if n := logs.Count("msg=denied") - before; n != want {
				t.Errorf("limit %d, second %d: %d lines", limit, second, n)
			}
		}
		denied := s.decide.Requests().Denied
		onLines, others := tally(t, logs.String())
		if denied != 9000-1000 || want > 0 && onLines+others != denied {
			t.Errorf("limit %d: %d denied, %d on lines and %d others", limit, denied, onLines, others)
		}
	}
	c := newConfig(t, perIP())
	c.DenialLogs = 101
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "DenialLogs: 101") {
		t.Errorf("101 lines: %v", err)
	}
}

// tally adds up the denials on lines, and those without one.
func tally(t *testing.T, logs string) (onLines, others uint64) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)( count|suppressed)=(\d+)`).FindAllStringSubmatch(logs, -1) {
		var n uint64
		fmt.Sscan(m[2], &n)
		if m[1] == "suppressed" {
			others += n
		} else {
			onLines += n
		}
	}
	return onLines, others
}

// An IPv6 subscriber has one line, whatever addresses it takes.
func TestDenialLinesAreForSubscribers(t *testing.T) {
	t.Parallel()
	s, logs := deny(t)
	for i := range 500 {
		s.from(fmt.Sprintf("2001:db8::%x", i+1), 1)
	}
	s.from("2001:db8:0:1::1", 2)
	s.from("::ffff:192.0.2.1", 2)
	s.endSecond()
	if n := logs.Count("msg=denied"); n != 3 || logs.Count("count=499 ") != 1 || logs.Count("client=192.0.2.1 ") != 1 {
		t.Errorf("%d lines:\n%s", n, logs)
	}
}

// What clients write is escaped, and no filter takes it for a client.
func TestDenialLogsCannotBeForged(t *testing.T) {
	t.Parallel()
	set := perIP()
	set.Rules[0].Limit.Burst = 1
	set.Rules[0].Key = []policy.KeyPart{{Kind: policy.KeyPath}}
	s, logs := denyWith(t, set)
	const forged = "\nlevel=INFO msg=denied client=198.51.100.9 rule=per-ip"
	for i, target := range []string{
		"/%0a" + strings.ReplaceAll(forged[1:], " ", "%20"), "/%1b[31m", "/%22%20client=198.51.100.9%20rule=", "/client=198.51.100.9", "/%e2%80%a8%c2%85",
		"/" + strings.Repeat("a", 1000), "/time=2026-11-22T10:00:00.000Z%20level=INFO%20msg=denied%20client=198.51.100.9%20rule=x",
	} {
		ctx := newContext(&net.TCPAddr{IP: net.IPv4(192, 0, 2, byte(i+1)), Port: 1})
		ctx.Request.SetRequestURI(target)
		ctx.Request.Header.SetMethod("GET")
		for range 2 {
			s.decide.Handlers(0).Request(ctx)
		}
	}
	s.endSecond()
	text := logs.String()
	if lines := strings.Split(strings.TrimSpace(text), "\n"); len(lines) != 7 {
		t.Fatalf("%d lines:\n%s", len(lines), text)
	}
	for _, b := range []byte(strings.ReplaceAll(text, "\n", "")) {
		if b < ' ' || b == 0x7f {
			t.Fatalf("a control byte in the log: %q", text)
		}
	}
	filter := fail2banFilter(t, "fail2ban.conf")
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if len(line) > 700 {
			t.Errorf("a long path is not cut: %s", line)
		}
		if got := filter(line); got != fmt.Sprintf("192.0.2.%d", i+1) {
			t.Errorf("the filter finds %q in %s", got, line)
		}
	}
}

// fail2banFilter reads the filter of the documentation as fail2ban does: it
// cuts the date out, then matches the rest. It returns the address found.
func fail2banFilter(t *testing.T, recipe string) func(line string) string {
	t.Helper()
	conf, err := os.ReadFile("../docs/recipes/" + recipe)
	if err != nil {
		t.Fatal(err)
	}
	setting := func(name string) string {
		m := regexp.MustCompile(`(?m)^` + name + `\s*= (.*)$`).FindSubmatch(conf)
		if m == nil {
			t.Fatalf("the filter has no %s", name)
		}
		return string(m[1])
	}
	date := regexp.MustCompile(strings.NewReplacer("%%Y", `\d{4}`, "%%m", `\d\d`, "%%d", `\d\d`, "%%H", `\d\d`, "%%M", `\d\d`, "%%S", `\d\d`,
		"%%f", `\d{1,6}`, "%%z", `(?:Z|[+-]\d\d:?\d\d)`).Replace(setting("datepattern")))
	const addr = `(?:::f{4,6}:)?(\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F:]+`
	fail := regexp.MustCompile(strings.NewReplacer("<ADDR>", addr+")", "<SUBNET>", addr+`(?:/\d{1,3})?)`).Replace(setting("failregex")))
	return func(line string) string {
		if !date.MatchString(line) {
			t.Errorf("no date in %s", line)
		}
		if m := fail.FindStringSubmatch(date.ReplaceAllString(line, "")); m != nil {
			return m[1]
		}
		return ""
	}
}

func TestFail2banFilter(t *testing.T) {
	t.Parallel()
	filter := fail2banFilter(t, "fail2ban.conf")
	s, logs := deny(t)
	s.from("192.0.2.1", 2)
	s.from("2001:db8::1", 2)
	// Lines of other kinds: a warning about a proxy, and a bad request.
	statuses(t, s, []byte("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.9\r\n\r\n"))
	statuses(t, s, []byte("GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n"))
	if logs.Count("not trusted") != 1 {
		t.Errorf("no warning about the proxy:\n%s", logs)
	}
	s.endSecond()
	var found []string
	for line := range strings.Lines(logs.String()) {
		found = append(found, filter(strings.TrimSpace(line)))
	}
	if fmt.Sprint(found) != "[ 192.0.2.1 2001:db8::1 ]" {
		t.Errorf("found %q in\n%s", found, logs)
	}
}

// A denial without a client, which on_unnamed: skip leaves, has a line too.
func TestDenialsWithoutAClient(t *testing.T) {
	t.Parallel()
	set := unnamedSettings(policy.UnnamedSkip, 0)
	set.Rules[2].Limit.Burst = 1
	s, logs := denyWith(t, set)
	s.from("127.0.0.1", 3)
	s.endSecond()
	if logs.Count(`client="" rule=all key=global `) != 1 || logs.Count("count=2 ") != 1 {
		t.Errorf("got\n%s", logs)
	}
}
