package accesslog

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fastlimit/fastlimit/internal/namedfile"
)

// line is what a reader finds in a line.
type line struct {
	Time     time.Time `json:"time"`
	Client   string    `json:"client"`
	Peer     string    `json:"peer"`
	Method   string    `json:"method"`
	Host     string    `json:"host"`
	Path     string    `json:"path"`
	Status   int       `json:"status"`
	Bytes    int64     `json:"bytes"`
	Duration float64   `json:"duration"`
	Upstream string    `json:"upstream"`
	First    float64   `json:"upstream_time"`
	Decision string    `json:"decision"`
	Rule     string    `json:"rule"`
	Stage    string    `json:"stage"`
	Reason   string    `json:"reason"`
	Agent    string    `json:"user_agent"`
	Referer  string    `json:"referer"`
	Reused   bool      `json:"reused"`
}

func parse(t testing.TB, b []byte) (l line) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		t.Fatalf("%q: %v", b, err)
	}
	return l
}

func sample() Entry {
	return Entry{
		Time: time.Date(2026, 11, 23, 1, 2, 3, 4005678, time.UTC), Client: netip.MustParseAddr("192.0.2.7"), Peer: netip.MustParseAddr("10.0.0.1"),
		Method: []byte("GET"), Host: []byte("a.example"), Path: []byte("/x?y=1"), Status: 429, Bytes: 180, Duration: 21 * time.Microsecond,
		Decision: "deny", Rule: "per-ip", Stage: "table", UserAgent: []byte("curl/8"), Reused: true,
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	e := sample()
	const want = `{"time":"2026-11-23T01:02:03.004005Z","client":"192.0.2.7","peer":"10.0.0.1","method":"GET","host":"a.example","path":"/x","status":429,"bytes":180,"duration":0.000021,"decision":"deny","rule":"per-ip","stage":"table","user_agent":"curl/8","reused":true}` + "\n"
	if got := string(e.append(nil, false)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got, want := string(e.append(nil, true)), strings.Replace(want, `"/x"`, `"/x?y=1"`, 1); got != want {
		t.Errorf("with its query: got\n%swant\n%s", got, want)
	}
	for url, want := range map[string]string{"/a?token=s#f": "/a", "/a#s": "/a", "?s": "", "https://a.example/b?c=s": "https://a.example/b", "/a": "/a"} {
		secret := Entry{Path: []byte(url), Referer: []byte(url)}
		if l := parse(t, secret.append(nil, false)); l.Path != want || l.Referer != want {
			t.Errorf("%s: %+v", url, l)
		}
	}
	if page, err := os.ReadFile("../../../docs/operations.md"); err != nil || !strings.Contains(string(page), want) {
		t.Errorf("docs/operations.md does not show this line: %v", err)
	}
	e = Entry{Client: e.Client, Peer: e.Client, Upstream: "http://a", UpstreamTime: 1500 * time.Millisecond, Duration: time.Hour + 1, Reason: "host", Referer: []byte("x")}
	l := parse(t, e.append(nil, true))
	if l.Peer != "" || l.Upstream != "http://a" || l.First != 1.5 || l.Duration != 3600 || l.Reason != "host" || l.Referer != "x" || l.Reused {
		t.Errorf("%+v", l)
	}
}

// expected is what a text of a client is in a line.
func expected(b []byte, most int) string {
	cut := ""
	if len(b) > most {
		for cut = "…"; most > 0 && !utf8.RuneStart(b[most]); {
			most--
		}
		b = b[:most]
	}
	return string([]rune(string(b))) + cut // each byte that is not UTF-8 becomes U+FFFD
}

// FuzzLine: whatever clients send, an entry is one line of JSON without control characters,
// of bounded length, which gives back the fields.
func FuzzLine(f *testing.F) {
	f.Add([]byte("GET"), []byte("a"), []byte("/\x00\x1b[2J\"\\\n\u2028\u009b"), []byte("\xff\xc3("), []byte("é"), int64(5), 200)
	f.Add([]byte("GET"), []byte(""), []byte("/\u202e\u00ad\U000e0001"), []byte("\u200b"), []byte("日本"), int64(5), 200)
	f.Add([]byte(""), []byte(""), []byte(strings.Repeat("é", maxPath)), []byte(strings.Repeat("\x00", 999)), []byte(strings.Repeat("a\xff", 300)), int64(-1), 0)
	f.Fuzz(func(t *testing.T, method, host, path, agent, referer []byte, n int64, status int) {
		e := Entry{Time: time.Unix(0, 0), Method: method, Host: host, Path: path, UserAgent: agent, Referer: referer, Bytes: n, Status: status, Rule: string(host)}
		got := e.append(nil, true)
		if len(got) > bufferBytes || bytes.Count(got, []byte("\n")) != 1 || got[len(got)-1] != '\n' || !utf8.Valid(got[:1]) {
			t.Fatalf("%d bytes: %q", len(got), got)
		}
		for _, r := range string(got[:len(got)-1]) {
			if r < ' ' || len(host) == 0 && !unicode.IsPrint(r) {
				t.Fatalf("%q in %q", r, got)
			}
		}
		l := parse(t, got)
		for _, c := range []struct {
			got  string
			from []byte
			most int
		}{{l.Method, method, maxMethod}, {l.Host, host, maxHost}, {l.Path, path, maxPath}, {l.Agent, agent, maxText}, {l.Referer, referer, maxText}} {
			if want := expected(c.from, c.most); c.got != want {
				t.Fatalf("%q of %q, want %q", c.got, c.from, want)
			}
		}
		if l.Bytes != n || l.Status != status {
			t.Fatalf("%+v", l)
		}
	})
}

// sink is an output that can be made to wait or to fail.
type sink struct {
	mu     sync.Mutex
	wrote  bytes.Buffer
	fail   error
	part   int           // bytes that are written before it fails
	gate   chan struct{} // nil: it does not wait
	closed bool
}

func (s *sink) Write(p []byte) (int, error) {
	if s.gate != nil {
		<-s.gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		n := min(s.part, len(p))
		s.wrote.Write(p[:n])
		return n, s.fail
	}
	return s.wrote.Write(p)
}

func (s *sink) Close() error { s.closed = true; return nil }

var quiet = slog.New(slog.DiscardHandler)

// While the file accepts nothing, requests continue, and what does not fit is counted: the rest is in the
// file afterwards.
func TestSlowFile(t *testing.T) {
	t.Parallel()
	out := &sink{gate: make(chan struct{})}
	l := newLog("x", out, quiet)
	e := sample()
	const lines = 20_000 // of 250 bytes, five times what there is room for
	for range lines {
		l.Write(&e)
	}
	dropped := l.Dropped()
	if dropped == 0 || dropped > lines-3000 {
		t.Errorf("%d of %d dropped", dropped, lines)
	}
	close(out.gate)
	l.Close()
	if n := uint64(strings.Count(out.wrote.String(), "\n")); n+dropped != lines || l.Dropped() != dropped || !out.closed {
		t.Errorf("%d lines and %d dropped, of %d", n, dropped, lines)
	}
}

// Writers, a rotation and the end at once, under -race: each line is whole and counted once.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "access.log")
	l, err := Open(name, quiet)
	if err != nil {
		t.Fatal(err)
	}
	const writers, each = 4, 2000
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			e := sample()
			for range each {
				l.Write(&e)
			}
		})
	}
	if err := os.Rename(name, name+".1"); err != nil {
		t.Fatal(err)
	}
	l.Reopen()
	all.Wait()
	for { // the new file is there when it is opened
		if _, err := os.Stat(name); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	e := sample()
	e.Rule = "after"
	l.Write(&e)
	l.Close()
	n := uint64(0)
	for _, file := range []string{name, name + ".1"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for one := range bytes.Lines(text) {
			if got := parse(t, one); got.Rule == "after" && file != name {
				t.Error("what came after the rotation is in the old file")
			}
			n++
		}
	}
	if n+l.Dropped() != writers*each+1 {
		t.Errorf("%d lines, %d dropped", n, l.Dropped())
	}
}

// A full disk loses lines, which are counted and logged once; the next line that is written starts a new
// line.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	out := &sink{fail: errors.New("no space left on device")}
	l := &Log{name: "x", log: slog.New(slog.NewTextHandler(&log, nil)), out: out}
	one := func() *buffer { e := sample(); return &buffer{e.append(e.append(nil, true), true), 2} }
	l.write(one())
	out.part = len(one().bytes) - 10 // a line, and most of the next
	l.write(one())
	if l.Dropped() != 3 || strings.Count(log.String(), "cannot be written") != 1 {
		t.Errorf("%d dropped: %s", l.Dropped(), log.String())
	}
	out.fail = nil
	l.write(one())
	if !strings.Contains(log.String(), "is written again") {
		t.Error(log.String())
	}
	whole, broken := 0, 0
	for text := range strings.Lines(out.wrote.String()) {
		if json.Valid([]byte(text)) {
			whole++
		} else {
			broken++
		}
	}
	if whole != 3 || broken != 1 {
		t.Errorf("%d whole lines and %d others: %s", whole, broken, out.wrote.String())
	}
}

func TestOpenMistakes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, want := range map[string]string{dir: "is a directory", filepath.Join(dir, "none", "x"): "no such file or directory"} {
		if _, err := Open(name, quiet); err == nil || namedfile.Cause(err) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	l, err := Open(Stdout, quiet)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	l.Close()
	if _, err := os.Stdout.Stat(); err != nil {
		t.Error("standard output was closed")
	}
}

// A file that cannot be opened again leaves the old one.
func TestReopenFails(t *testing.T) {
	t.Parallel()
	out := new(sink)
	l := newLog(filepath.Join(t.TempDir(), "none", "x"), out, quiet)
	l.Reopen()
	for l.reopenPending() {
		time.Sleep(time.Millisecond)
	}
	e := sample()
	l.Write(&e)
	l.Close()
	if strings.Count(out.wrote.String(), "\n") != 1 {
		t.Errorf("%q", out.wrote.String())
	}
}

func (l *Log) reopenPending() bool { return len(l.reopen) > 0 }

func TestWriteDoesNotAllocate(t *testing.T) {
	l := newLog("x", keepOpen{io.Discard}, quiet)
	defer l.Close()
	e := sample()
	if n := testing.AllocsPerRun(1000, func() { l.Write(&e) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkWrite(b *testing.B) {
	l := newLog("x", keepOpen{io.Discard}, quiet)
	defer l.Close()
	e := sample()
	b.ReportAllocs()
	for b.Loop() {
		l.Write(&e)
	}
}
