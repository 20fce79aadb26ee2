package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit"
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
	for _, name := range laterAlgorithms {
		if slices.Contains(algorithms, name) {
			t.Errorf("%s is there already", name)
		}
	}
}

// Settings that contradict the algorithm are errors where they stand.
func TestAlgorithmErrors(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]string{
		"algorithm: fixed_window, burst: 9":           `f.yaml:1:62: rules[0].burst: has no meaning beside algorithm: fixed_window, which admits what rate says in each period; remove one of the two`,
		"algorithm: sliding_window":                   `f.yaml:1:41: rules[0].algorithm: sliding_window is not supported by this version; write one of leaky_bucket, token_bucket, fixed_window`,
		"algorithm: sliding_log":                      `f.yaml:1:41: rules[0].algorithm: sliding_log is not supported by this version; write one of leaky_bucket, token_bucket, fixed_window`,
		"algorithm: gcra":                             `f.yaml:1:41: rules[0].algorithm: "gcra" is not a known value; write leaky_bucket, token_bucket or fixed_window`,
		"count_denied: true":                          `f.yaml:1:44: rules[0].count_denied: has a meaning for windows only: a bucket does not count denied requests; remove it, or choose a fixed window`,
		"count_denied: true, algorithm: leaky_bucket": `f.yaml:1:44: rules[0].count_denied: has a meaning for windows only: a bucket does not count denied requests; remove it, or choose a fixed window`,
		"algorithm: fixed_window, cost: 6":            `f.yaml:1:61: rules[0].cost: cost 6 is above the 5 of a window: no request would ever be admitted; lower it, or raise the rate`,
	} {
		_, err := Parse("f.yaml", []byte("rules: [{name: a, rate: 5/s, "+settings+"}]"), noEnv)
		if err == nil || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", settings, err, want)
		}
	}
	_, err := Parse("f.yaml", []byte("rules: [{name: a, algorithm: fixed_window, legacy: {max: 10, duration: 10s}}]"), noEnv)
	if err == nil || err.Error() != "f.yaml:1:30: rules[0].algorithm: fixed_window stands beside legacy, which defines a bucket; remove it, or write rate instead of legacy" {
		t.Error(err)
	}
	_, err = Parse("f.yaml", []byte("rules: [{name: a, rate: 4294967296/d, algorithm: fixed_window}]"), noEnv)
	if err == nil || !strings.Contains(err.Error(), "f.yaml:1:25: rules[0].rate: 4294967296 units in a window are too many; want at most 4294967295") {
		t.Error(err)
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
	if got := Limit(&fastlimit.RuleConfig{Rate: fastlimit.Rate{N: 5, Per: 1e9}, Burst: 7}); got != "5/s burst 7" {
		t.Error(got)
	}
}
