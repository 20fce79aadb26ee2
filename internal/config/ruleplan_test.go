package config

import (
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit"
)

func TestAtOnce(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]uint64{
		"rate: 100/s, burst: 200":                    301, // (1+0.5)·200 + 1
		"rate: 100/s, burst: 200, escalate_at: 0":    201,
		"rate: 100/s, burst: 200, escalate_at: 1":    401,
		"rate: 100/s, burst: 15":                     23, // 22.5 + 1, whole units
		"rate: 5/s":                                  6,  // θ = 0
		"rate: 100/s, burst: 200, strict: true":      200,
		"rate: 1/d, burst: 100":                      150, // no filter, so no first-seen request
		"rate: 1/s, burst: 1000000000000":            1500000000000,
		"rate: 100/s, algorithm: token_bucket":       151,
		"rate: 100/s, algorithm: fixed_window":       151,
		"rate: 100/s, algorithm: sliding_window":     151,
		"rate: 100/s, algorithm: sliding_log":        151,
		"rate: 50/2h, algorithm: sliding_log":        75,              // no filter
		"rate: 1000000000/s, burst: 100000000000001": 150000000002001, // the clock rounds to µs
	} {
		c := mustParse(t, "rules: [{name: a, "+settings+"}]")
		if got := plan(t, c).Rules[0].MaxBurst(); got != want {
			t.Errorf("%s: got %d, want %d", settings, got, want)
		}
	}
}

// What validate says of a window is its bound in one, and around an edge of a cluster.
func TestDescribeWindows(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "rules: [{name: a, rate: 100/s, algorithm: fixed_window}, {name: b, rate: 10/s, algorithm: token_bucket}]")
	p := plan(t, c)
	text := Describe(c, p)
	for _, want := range []string{"100/s, fixed window", "151 in a window\n", "10/s burst 10, token bucket", "16 at once, then 10/s"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	cluster := &Cluster{}
	if got := cluster.Bound(&p.Rules[0]); got != "151 in a window" {
		t.Error(got)
	}
	if strings.Contains(text, "log of rule") {
		t.Errorf("there is no log, but\n%s", text)
	}
	if got := Limit(&fastlimit.RuleConfig{Rate: fastlimit.Rate{N: 5, Per: 1e9}, Burst: 7}); got != "5/s burst 7" {
		t.Error(got)
	}
}

// What validate says of what slides is a bound on any period, nowhere a burst; of a log
// also what it takes, which is why it is for so few clients.
func TestDescribeSliding(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "rules: [{name: a, rate: 100/15m, algorithm: sliding_window}, {name: b, rate: 100/15m, algorithm: sliding_log}]")
	p := plan(t, c)
	text := Describe(c, p)
	for _, want := range []string{"100/15m, sliding window", "151 in a sliding window\n", "100/15m, sliding log", "151 in any 15m\n", "log of rule b: 9", " B for each bucket, with the times of up to 100 units\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "burst") || strings.Contains(text, "at once") {
		t.Errorf("there is no burst, but\n%s", text)
	}
	window, log := &p.Rules[0], &p.Rules[1]
	if least := int64(log.Buckets) * 100 * 8; log.Buckets >= window.Buckets || log.Bytes < least {
		t.Errorf("logs of %d clients take %d bytes, and windows of %d %d; want at least %d", log.Buckets, log.Bytes, window.Buckets, window.Bytes, least)
	}
	cluster := &Cluster{}
	for i, want := range []string{"151 in a sliding window", "151 in any 15m"} {
		if got := cluster.Bound(&p.Rules[i]); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A log that does not fit, or that a store cannot keep, is an error at its rate.
func TestLogsThatDoNotFit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"rules: [{name: a, rate: 1000000/h, algorithm: sliding_log}]":                                         "f.yaml:1:25: rules[0].rate: logs of 1000000 units take ",
		"memory: 1MiB\nrules: [{name: a, rate: 5000/h, algorithm: sliding_log}]":                              "f.yaml:2:25: rules[0].rate: logs of 5000 units take ",
		"redis: {url: \"redis://h\"}\nrules: [{name: a, rate: 4097/h, algorithm: sliding_log}]":               "f.yaml:2:25: rules[0].rate: a log of 4097 units is too long for a shared store; want at most 4096, or a sliding window",
		"redis: {url: \"redis://h\"}\nrules: [{name: a, rate: 4096/h, algorithm: sliding_log}]":               "",
		"memory: 1GiB\nredis: {url: \"redis://h\"}\nrules: [{name: a, rate: 4096/h, algorithm: sliding_log}]": "",
		"memory: 16GiB\nrules: [{name: a, rate: 1000000/h, algorithm: sliding_log}]":                          "",
	} {
		_, err := Parse("f.yaml", []byte(text), noEnv)
		if (err == nil) != (want == "") || err != nil && (!strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
	_, err := Parse("f.yaml", []byte("rules: [{name: a, rate: 1000000/h, algorithm: sliding_log}]"), noEnv)
	if err == nil || !strings.HasSuffix(err.Error(), "; lower it, raise the memory, or choose a sliding window") {
		t.Error(err)
	}
}
