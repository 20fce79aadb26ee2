package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/limit"
)

// The names of the file are those of the library, in its order.
func TestAlgorithmNames(t *testing.T) {
	t.Parallel()
	for i, name := range algorithms {
		c := mustParse(t, "rules: [{name: a, rate: 100/s, algorithm: "+name+"}]")
		got := c.Limiter().Rules[0].Algorithm
		if int(got) != i || strings.ReplaceAll(got.String(), " ", "_") != name {
			t.Errorf("%s: %v", name, got)
		}
	}
	if len(algorithms) != int(bucket.NumAlgorithms) {
		t.Errorf("%d names for %d algorithms", len(algorithms), bucket.NumAlgorithms)
	}
}

// Settings that contradict the algorithm are errors where they stand.
func TestAlgorithmErrors(t *testing.T) {
	t.Parallel()
	const fix = "; remove it, or choose fixed_window or sliding_window"
	for settings, want := range map[string]string{
		"algorithm: fixed_window, burst: 9":             `1:62: rules[0].burst: has no meaning with algorithm: fixed_window, which admits what rate says in each period; remove one of the two`,
		"algorithm: sliding_window, burst: 5":           `1:64: rules[0].burst: has no meaning with algorithm: sliding_window, which admits what rate says in any period; remove one of the two`,
		"burst: 9, algorithm: sliding_log":              `1:37: rules[0].burst: has no meaning with algorithm: sliding_log, which admits what rate says in any period; remove one of the two`,
		"algorithm: gcra":                               `1:41: rules[0].algorithm: "gcra" is not a known value; write leaky_bucket, token_bucket, fixed_window, sliding_window or sliding_log`,
		"algorithm: gcra, count_denied: true, burst: 9": `1:41: rules[0].algorithm: "gcra" is not a known value; write leaky_bucket, token_bucket, fixed_window, sliding_window or sliding_log`,
		"count_denied: true":                            `1:44: rules[0].count_denied: has a meaning for windows only: a bucket does not count denied requests` + fix,
		"count_denied: true, algorithm: leaky_bucket":   `1:44: rules[0].count_denied: has a meaning for windows only: a bucket does not count denied requests` + fix,
		"count_denied: true, algorithm: sliding_log":    `1:44: rules[0].count_denied: has no meaning with algorithm: sliding_log, which keeps only the times of admitted requests` + fix,
		"count_denied: true, algorithm: '${LOG}'":       `1:44: rules[0].count_denied: has no meaning with algorithm: sliding_log, which keeps only the times of admitted requests` + fix,
		"burst: 9, algorithm: '${LOG}'":                 `1:37: rules[0].burst: has no meaning with algorithm: sliding_log, which admits what rate says in any period; remove one of the two`,
		"algorithm: fixed_window, cost: 6":              `1:61: rules[0].cost: cost 6 is above the 5 of a period: no request would ever be admitted; lower it, or raise the rate`,
	} {
		_, err := Parse("f.yaml", []byte("rules: [{name: a, rate: 5/s, "+settings+"}]"), counting)
		if err == nil || err.Error() != "f.yaml:"+want {
			t.Errorf("%s:\ngot  %v\nwant %s", settings, err, want)
		}
	}
}

// counting is an environment in which LOG and WINDOW are names of algorithms.
func counting(name string) (string, bool) {
	text, ok := map[string]string{"LOG": "sliding_log", "WINDOW": "sliding_window", "BUCKET": "token_bucket"}[name]
	return text, ok
}

// An algorithm that a variable names is checked, and accepted, like one that is written.
func TestAlgorithmsOfVariables(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{
		"rate: 5/s, algorithm: '${WINDOW}', count_denied: true", "rate: 5/s, algorithm: '${LOG}'",
		"algorithm: '${BUCKET}', legacy: {max: 10, duration: 10s}", "rate: 5/s, algorithm: '${BUCKET}', burst: 9",
	} {
		if _, err := Parse("f.yaml", []byte("rules: [{name: a, "+rule+"}]"), counting); err != nil {
			t.Errorf("%s: %v", rule, err)
		}
	}
}

// Definitions of buckets are none of windows and logs.
func TestAlgorithmsBesideDefinitions(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"fixed_window", "sliding_window", "sliding_log", "${LOG}"} {
		for definition, text := range map[string]string{"legacy": "{max: 10, duration: 10s}", "bucket": "{size: 10}"} {
			_, err := Parse("f.yaml", []byte("rules: [{name: a, algorithm: '"+name+"', "+definition+": "+text+"}]"), counting)
			want := "f.yaml:1:30: rules[0].algorithm: " + strings.Replace(name, "${LOG}", "sliding_log", 1) + " is set together with " + definition +
				", which defines a bucket; remove it, or write rate instead of " + definition
			if err == nil || err.Error() != want {
				t.Errorf("%s beside %s:\ngot  %v\nwant %s", name, definition, err, want)
			}
		}
	}
}

// Rates that an algorithm cannot count are errors at the rate, with the bound. The
// largest ones are accepted.
func TestRatesOfAlgorithms(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]string{
		"rate: 4294967296/d, algorithm: fixed_window": "4294967296 units in a window are too many; want at most 4294967295",
		"rate: 32768/s, algorithm: sliding_window":    "32768 units in a sliding window of 1s are too many; want at most 32767, or a fixed window",
		"rate: 262144/m, algorithm: sliding_window":   "262144 units in a sliding window of 1m0s are too many; want at most 262143, or a fixed window",
		"rate: 2097152/h, algorithm: sliding_window":  "2097152 units in a sliding window of 1h0m0s are too many; want at most 2097151, or a fixed window",
		"rate: 1048577/h, algorithm: sliding_log":     "a log of 1048577 units for each client is too long; want at most 1048576, or a sliding window",
	} {
		_, err := Parse("f.yaml", []byte("rules: [{name: a, "+rule+"}]"), noEnv)
		if err == nil || err.Error() != "f.yaml:1:25: rules[0].rate: "+want {
			t.Errorf("%s:\ngot  %v\nwant %s", rule, err, want)
		}
	}
	for _, rule := range []string{
		"rate: 4294967295/d, algorithm: fixed_window", "rate: 32767/s, algorithm: sliding_window", "rate: 262143/m, algorithm: sliding_window",
		"rate: 2097151/h, algorithm: sliding_window", "rate: 1/366d, algorithm: sliding_window", "rate: 1/366d, algorithm: sliding_log",
	} {
		mustParse(t, "rules: [{name: a, "+rule+"}]")
	}
}

// Rules of two nodes are the same if they count the same by the same.
func TestRuleKinds(t *testing.T) {
	t.Parallel()
	kind := func(settings string) string {
		return mustParse(t, "rules: [{name: a, rate: 10/s, "+settings+"}]").Limiter().Rules[0].KeyKind
	}
	same := []string{
		"key: ip", "key: [ip]", "burst: 7", "key: ip, mode: shadow",
	}
	for _, s := range same {
		if kind(s) != kind("key: ip") {
			t.Errorf("%s: %s", s, kind(s))
		}
	}
	if a, b := kind("match: {path: [/a, /b]}"), kind("match: {path: [/b, /a]}"); a != b {
		t.Errorf("%s, %s", a, b)
	}
	seen := map[string]string{}
	for _, s := range []string{
		"key: ip", "key: host", "key: [ip, host]", "key: [host, ip]", "key: header:Host-Ip", "key: cookie:ip", "match: {path: /a}",
		"match: {host: a}", "match: {path: /a, method: GET}", `match: {path: "/a\",\"/b"}`, "match: {path: [/a, /b]}",
	} {
		if other, ok := seen[kind(s)]; ok {
			t.Errorf("%s and %s are %s", s, other, kind(s))
		}
		seen[kind(s)] = s
	}
}

func TestTooManyRules(t *testing.T) {
	t.Parallel()
	text := "memory: 1GiB\nrules:\n"
	for i := range limit.MaxRules {
		text += fmt.Sprintf("- {name: r%d, rate: 5/s}\n", i)
	}
	mustParse(t, text)
	_, err := Parse("f.yaml", []byte(text+"- {name: more, rate: 5/s}\n"), noEnv)
	if err == nil || err.Error() != "f.yaml:3:1: rules: 257 rules; want at most 256" {
		t.Error(err)
	}
}
