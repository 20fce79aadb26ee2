package replay

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/policy"
)

func perIP(rate string, burst uint64) Config {
	return config(policy.Settings{Rules: []policy.RuleSpec{rule("per-ip", rate, burst)}})
}

// A log that was cut into files, compressed or not, in any order, gives the
// report of the whole, whether it is sorted as a whole or passes a window; so do
// the logs of several servers that ran at the same time.
func TestSeveralLogs(t *testing.T) {
	t.Parallel()
	const n, parts = 6000, 7
	hits := generate(n, 60)
	want := mustRun(t, logOf(hits), perIP("10/m", 20))
	rnd := rand.New(rand.NewPCG(3, 3))
	rotated, dealt := make([]string, parts), make([]string, parts)
	for i := range hits {
		rotated[i*parts/n] += hits[i].String()
		dealt[rnd.IntN(parts)] += hits[i].String()
	}
	for name, texts := range map[string][]string{"rotated": rotated, "of several servers": dealt} {
		for _, stream := range []bool{false, true} {
			rnd.Shuffle(parts, func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
			var logs []Log
			for i, text := range texts {
				var r io.Reader = strings.NewReader(text)
				if i%2 == 0 {
					r = strings.NewReader(string(zip(t, text)))
				}
				logs = append(logs, Log{Name: fmt.Sprint(i), Reader: r})
			}
			c := perIP("10/m", 20)
			c.Stream = stream
			got, err := Run(t.Context(), logs, c)
			if err != nil {
				t.Fatal(err)
			}
			// Requests of one second may change places, so only what exact
			// buckets say is the same to the last.
			if got.Requests != n || got.Late != 0 || got.FalseDenials != 0 || got.Rules[0].ExactDenied != want.Rules[0].ExactDenied ||
				got.First != want.First || got.Last != want.Last {
				t.Errorf("%s, stream %v: %d requests, %d late, %d denied by exact buckets, %s to %s; want %d, 0, %d, %s to %s", name, stream,
					got.Requests, got.Late, got.Rules[0].ExactDenied, got.First, got.Last, n, want.Rules[0].ExactDenied, want.First, want.Last)
			}
		}
	}
}

// A log without a line that can be read is an error that names the formats;
// beside others it is a warning.
func TestNoLines(t *testing.T) {
	t.Parallel()
	good := generate(1, 0)[0].String()
	_, err := run(t.Context(), strings.NewReader("\nhello\n"), perIP("1/s", 1))
	if err == nil {
		t.Fatal("a log without a line is accepted")
	}
	for _, want := range []string{"no line can be read; line 1: does not start with a client address", "common", "combined", "nginx", "Apache", "Caddy", "--fields", "gzip"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
	both := func(a, b string) (*Report, error) {
		return Run(t.Context(), []Log{{"a.log", strings.NewReader(a)}, {"b.log", strings.NewReader(b)}}, perIP("1/s", 1))
	}
	r, err := both("hello\n"+strings.Repeat("x\n", 9), good)
	if err != nil || r.Requests != 1 || r.Skipped != 10 || len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], "a.log: no line can be read; line 1: ") ||
		r.SkippedLines[0].File != "a.log" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := both("hello\n", "x\n"); err == nil || !strings.HasPrefix(err.Error(), "a.log: no line") {
		t.Errorf("%v", err)
	}
	if _, err := both("hello\n", ""); err == nil || !strings.Contains(err.Error(), "a.log: no line") {
		t.Errorf("%v", err)
	}
	r, err = both("", good)
	if err != nil || !slices.Equal(r.Warnings, []string{"b.log is empty"}) && !slices.Equal(r.Warnings, []string{"a.log is empty"}) {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = run(t.Context(), strings.NewReader(""), perIP("1/s", 1))
	if err != nil || r.Requests != 0 || !slices.Equal(r.Warnings, []string{"the log is empty"}) {
		t.Errorf("%+v, %v", r, err)
	}
}

// A byte order mark is not part of the first line, plain or compressed.
func TestByteOrderMark(t *testing.T) {
	t.Parallel()
	text := byteOrderMark + generate(1, 0)[0].String()
	for _, log := range []string{text, string(zip(t, text)), strings.TrimSuffix(text, "\n")} {
		if r := mustRun(t, log, perIP("1/s", 1)); r.Requests != 1 || r.Skipped != 0 {
			t.Errorf("%d requests, %d skipped", r.Requests, r.Skipped)
		}
	}
	for text, want := range map[string]string{
		"BZh91AY": "bzcat", "\xfd7zXZ\x00x": "xzcat", "\x28\xb5\x2f\xfdx": "zstdcat",
	} {
		if _, err := run(t.Context(), strings.NewReader(text), perIP("1/s", 1)); err == nil || !strings.Contains(err.Error(), want+" LOG | fastlimit replay -") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Fractions of a second count: ten requests 100 ms apart keep 10/s, and those
// of one stamp do not.
func TestFractions(t *testing.T) {
	t.Parallel()
	line := func(stamp string) string {
		return `192.0.2.7 - - [` + stamp + ` +0000] "GET / HTTP/1.1" 200 1` + "\n"
	}
	apart, together := "", ""
	for i := range 10 {
		apart += line(fmt.Sprintf("17/May/2015:10:05:03.%d00", i))
		together += line("17/May/2015:10:05:03")
	}
	strict := func() Config {
		c := perIP("10/s", 1)
		c.Limiter.Rules[0].Strict, c.Policy.Rules[0].Limit.Strict = true, true
		return c
	}
	r := mustRun(t, apart, strict())
	if r.Denied != 0 || r.Rules[0].ExactDenied != 0 || r.First != "2015-05-17T10:05:03Z" || r.Last != "2015-05-17T10:05:03.9Z" {
		t.Errorf("100 ms apart: %+v", r)
	}
	if r := mustRun(t, together, strict()); r.Denied != 9 || r.Rules[0].ExactDenied != 9 {
		t.Errorf("at once: %d denied, %d by exact buckets", r.Denied, r.Rules[0].ExactDenied)
	}
	// The longest bucket there may be fits the oracle too.
	if r := mustRun(t, apart+together, perIP("1/d", 13_343_998)); r.Denied != 0 || r.Requests != 20 {
		t.Errorf("%d requests, %d denied", r.Requests, r.Denied)
	}
}

func TestStamps(t *testing.T) {
	t.Parallel()
	at := time.Date(2022, 3, 9, 21, 30, 1, 0, time.UTC).UnixMicro()
	var p parser
	for s, want := range map[string]int64{
		"09/Mar/2022:21:30:01 +0000":        at,
		"09/Mar/2022:21:30:01.5 +0000":      at + 500_000,
		"09/Mar/2022:22:30:01.123456 +0100": at + 123_456,
		"1646861401":                        at,
		"1646861401.5241024":                at + 524_102,
		"1646861401524":                     at + 524_000,
		"1646861401524.25":                  at + 524_250,
		"1646861401524102":                  at + 524_102,
		"1646861401524102400":               at + 524_102,
		"1.6468614015e9":                    at + 500_000,
		"2022-03-09T21:30:01Z":              at,
		"2022-03-09T21:30:01.25+00:00":      at + 250_000,
		"2022-03-09T21:30:01.250+0000":      at + 250_000,
		"2022-03-09T22:30:01+01:00":         at,
		"2022/03/09 21:30:01":               at,
		"2022/03/09 21:30:01.25":            at + 250_000,
		"2022-03-09 21:30:01":               at,
	} {
		if got, ok := p.textTime(s); !ok || got != want {
			t.Errorf("%s: %d, %v; want %d", s, got, ok, want)
		}
	}
	for _, s := range []string{
		"", "-", "now", "-1", "1.", "1.x", ".5", "NaN", "1e400", "0x10", "09/Mar/2022:21:30:01. +0000", "09/Mar/2022:21:30:01.5", "09/Mar/2022:21:30:01.5+0000",
		"09/Mar/2022:21:30:01.5 0000", "32/Mar/2022:21:30:01 +0000", "99999999999999999999",
	} {
		if got, ok := p.textTime(s); ok {
			t.Errorf("%q: %d", s, got)
		}
	}
}
