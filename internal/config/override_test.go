package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

func TestOverrides(t *testing.T) {
	t.Parallel()
	want := []policy.Override{
		{Key: []string{"192.0.2.7"}, Rate: fastlimit.Rate{N: 1000, Per: time.Second}, Burst: 2000},
		{Key: []string{"10.0.0.0/8"}, Unlimited: true},
		{Key: []string{"42"}, Burst: 3},
	}
	inline := mustParse(t, `rules: [{name: a, key: "header:X", rate: 1/s, overrides: [{key: 192.0.2.7, rate: 1000/s, burst: 2000}, {key: [10.0.0.0/8], unlimited: true}, {key: 42, burst: 3}]}]`)
	if got := inline.Policy.Rules[0].Overrides; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	dir := t.TempDir()
	list := filepath.Join(dir, "list")
	text := "# tiers\n192.0.2.7 rate=1000/s burst=2000\n\n \"10.0.0.0/8\"\tunlimited\nburst=3 42\n"
	if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := LoadFrom("f.yaml", strings.NewReader(fmt.Sprintf(`rules: [{name: a, key: "header:X", rate: 1/s, overrides_file: %q}]`, list)), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Policy.Rules[0].Overrides; !reflect.DeepEqual(got, want) {
		t.Errorf("from a file: %+v", got)
	}
	if c.Limiter().Reserved == 0 || !reflect.DeepEqual(c.Limiter().Rules[0].Tiers, inline.Limiter().Rules[0].Tiers) || len(c.Limiter().Rules[0].Tiers) != 2 {
		t.Errorf("limiter: %+v", c.Limiter())
	}
}

func TestOverrideLines(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`a rate=5`:                   `rate "5": no "/"`,
		`a burst=0`:                  `"0" is not a burst`,
		`rate=5/s`:                   "no key",
		`"a rate=5/s`:                "quotes that do not end",
		`1 2 3 4 5 6 7 8 9 rate=5/s`: "9 parts of a key",
		`a b=c rate=5/s`:             "",
	} {
		if _, problem, fix := parseOverride(line); problem != want || (problem != "") != (fix != "") {
			t.Errorf("%s: %q; %q, want %q", line, problem, fix, want)
		}
	}
}

// Each mistake is reported once, at its place, with what to write.
func TestOverrideMistakes(t *testing.T) {
	t.Parallel()
	const rule = "rules: [{name: a, rate: 9/s, cost: 4, "
	for text, want := range map[string]string{
		rule + "overrides: [{key: 192.0.2.300, rate: 9/s}]}]":                                               `f.yaml:1:57: rules[0].overrides[0].key: "192.0.2.300" is neither an address nor a prefix; write for example 192.0.2.7, 10.0.0.0/8 or 2001:db8::/64`,
		rule + "overrides: [{key: 10.0.0.1/8, rate: 9/s}]}]":                                                `f.yaml:1:57: rules[0].overrides[0].key: "10.0.0.1/8" has bits beyond its length; write 10.0.0.0/8, or 10.0.0.1 for the address alone`,
		rule + `overrides: [{key: "2001:db8::1", rate: 9/s}]}]`:                                             `f.yaml:1:57: rules[0].overrides[0].key: "2001:db8::1" is a part of what the rule counts as one client; write 2001:db8::/64`,
		rule + "overrides: [{key: 10.0.0.1, rate: 9/s}, {key: 10.0.0.1/32, unlimited: true}]}]":             `f.yaml:1:85: rules[0].overrides[1].key: 10.0.0.1/32 has an override already, the 1st; remove one of the two`,
		rule + "overrides: [{key: 10.0.0.1, rate: 3/s}]}]":                                                  `f.yaml:1:51: rules[0].overrides[0]: cost 4 is above burst 3: no request would ever be admitted; lower it, or raise burst`,
		rule + "overrides: [{key: 10.0.0.1, rate: 100003/s}]}]":                                             `f.yaml:1:73: rules[0].overrides[0].rate: rate 100003/s cannot be kept exactly; write 100000/s`,
		rule + "overrides: [{key: 10.0.0.1}]}]":                                                             `f.yaml:1:51: rules[0].overrides[0]: the override changes nothing; write rate, burst or unlimited: true`,
		rule + "overrides: [{key: 10.0.0.1, rate: 9/s, unlimited: true}]}]":                                 `f.yaml:1:89: rules[0].overrides[0].unlimited: has no meaning with a rate or burst; remove one of the two`,
		rule + "overrides: [{rate: 9/s}]}]":                                                                 `f.yaml:1:51: rules[0].overrides[0].key: missing; write for example key: 192.0.2.7`,
		rule + "overrides: [{key: [a, b], rate: 9/s}]}]":                                                    `f.yaml:1:57: rules[0].overrides[0].key: has 2 parts, and the rule counts by one, ip; write for example 192.0.2.7, 10.0.0.0/8 or 2001:db8::/64`,
		rule + "key: global, overrides: [{key: x, rate: 9/s}]}]":                                            `f.yaml:1:70: rules[0].overrides[0].key: the rule has one bucket for everybody, and no keys to override; remove overrides, or count by another key`,
		rule + `key: "header:X-Api-Key", overrides: [{key: "a\r\n", rate: 9/s}]}]`:                          "f.yaml:1:82: rules[0].overrides[0].key: key part \"a\\r\\n\" has a control character, which requests cannot have in a header:X-Api-Key; write it as requests have it",
		rule + `key: [path, method], overrides: [{key: [/a], rate: 9/s}]}]`:                                 `f.yaml:1:78: rules[0].overrides[0].key: has 1 part, and the rule counts by 2; write a text for each: path, method`,
		"max_overrides: 1\n" + rule + "overrides: [{key: 1.1.1.1, rate: 9/s}, {key: 1.1.1.2, rate: 9/s}]}]": `f.yaml:2:50: rules[0].overrides: 2 overrides with those before, which is more than max_overrides, 1; raise max_overrides, or give their clients a rule of their own`,
		rule + "algorithm: fixed_window, overrides: [{key: 1.1.1.1, rate: 9/s, burst: 7}]}]":                `f.yaml:1:109: rules[0].overrides[0].burst: burst 7 has no meaning with a fixed window, which admits what its rate says in each period; remove it, or choose leaky_bucket`,
	} {
		_, err := Parse("f.yaml", []byte(text), noEnv)
		if err == nil || err.Error() != want {
			t.Errorf("%s\n got  %v\n want %s", text, err, want)
		}
	}
}

// A file of overrides that is wrong is reported where it is named, with its line.
func TestOverridesFileMistakes(t *testing.T) {
	t.Parallel()
	list := filepath.Join(t.TempDir(), "list")
	for text, want := range map[string]string{
		"\na rate=5\n":              `line 2 of "` + list + `": rate "5": no "/"`,
		"#\n10.0.0.1/8 unlimited\n": `line 2: "10.0.0.1/8" has bits beyond its length`,
		"10.0.0.1 rate=100003/s":    "line 1: rate 100003/s cannot be kept exactly",
	} {
		if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := LoadFrom("f.yaml", strings.NewReader(fmt.Sprintf("rules: [{name: a, rate: 1/s, overrides_file: %q}]", list)), noEnv)
		if err == nil || !strings.HasPrefix(err.Error(), "f.yaml:1:46: rules[0].overrides_file: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// validate says what overrides take, and no longer counts that as the filter's.
func TestDescribeOverrides(t *testing.T) {
	t.Parallel()
	const rule = "rules: [{name: a, rate: 9/s, "
	with := mustParse(t, rule+"overrides: [{key: 192.0.2.1, rate: 5/s}, {key: 192.0.2.2, rate: 5/s}, {key: 192.0.2.3, unlimited: true}]}]")
	text, without := Describe(with, plan(t, with)), mustParse(t, rule+"}]")
	if !strings.Contains(text, "\noverrides of rule a: 3, with 1 different limits, ") {
		t.Error(text)
	}
	filter := func(text string) string {
		_, rest, _ := strings.Cut(text, "first-seen filter ")
		size, _, _ := strings.Cut(rest, ":")
		return size
	}
	if got, want := filter(text), filter(Describe(without, plan(t, without))); got != want {
		t.Errorf("filter %s, without overrides %s", got, want)
	}
}
