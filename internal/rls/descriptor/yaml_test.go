package descriptor

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestParseYAML reads every setting.
func TestParseYAML(t *testing.T) {
	t.Parallel()
	const file = `
domain: 5
descriptors:
  - key: user
    value: 1.50
    shadow_mode: yes
    quota_mode: true
    detailed_metric: true
    value_to_metric: true
    share_threshold: false
    metadata: {a: [1, b, null, true], c: {d: 0.5}}
    rate_limit:
      unit: MINUTE
      requests_per_unit: 4294967295
      name: n
      replaces: [{name: x}, {name: y}]
    descriptors:
      - key: sub
        rate_limit: {unlimited: true}
  - key: none
    value:
    rate_limit:
    descriptors:
`
	got, warnings, errs := ParseYAML("f", []byte(file))
	if len(warnings)+len(errs) > 0 {
		t.Fatalf("%v %v", warnings, errs)
	}
	want := &Config{Name: "f", Domain: "5", Place: Place{2, 9}, Descriptors: []Descriptor{
		{
			Key: "user", Value: "1.50", Shadow: true, Quota: true, DetailedMetric: true, ValueToMetric: true, Place: Place{4, 5},
			Metadata: map[string]any{"a": []any{1.0, "b", nil, true}, "c": map[string]any{"d": 0.5}},
			Limit:    &Policy{Requests: 4294967295, Unit: Minute, UnitText: "MINUTE", Name: "n", Replaces: []string{"x", "y"}, Place: Place{13, 13}},
			Descriptors: []Descriptor{
				{Key: "sub", Place: Place{18, 9}, Limit: &Policy{Unlimited: true, Place: Place{19, 21}}},
			},
		},
		{Key: "none", Place: Place{20, 5}},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestMergeKeys: aliases and merge keys are what YAML says, as upstream's parser has them.
func TestMergeKeys(t *testing.T) {
	t.Parallel()
	const file = `
domain: d
descriptors:
  - &first
    key: a
    rate_limit: &limit {unit: day, requests_per_unit: 1}
  - <<: *first
    key: b
  - key: c
    rate_limit: {<<: [{unit: hour}, *limit], requests_per_unit: 2}
`
	limits := parseTree(t, file, false)
	const want = `d.a: unit=DAY requests_per_unit=1, shadow_mode: false, quota_mode: false
d.b: unit=DAY requests_per_unit=1, shadow_mode: false, quota_mode: false
d.c: unit=HOUR requests_per_unit=2, shadow_mode: false, quota_mode: false
`
	if got := limits.String(); got != want || limits.Len() != 3 || limits.Domains() != 1 {
		t.Errorf("%d of %d\n%s", limits.Len(), limits.Domains(), got)
	}
}

// TestMistakes has every mistake, those that upstream refuses among them.
func TestMistakes(t *testing.T) {
	t.Parallel()
	key := "domain: d\ndescriptors:\n  - key: k\n"
	for text, want := range map[string]string{
		"":                                     "f:1:1: domain: is missing or empty; write the domain that Envoy sends",
		"'''":                                  "f:1:1: YAML: found unexpected end of stream; check the indentation and the quotes",
		"- a":                                  "f:1:1: a file is a list; want a mapping: descriptors, domain",
		"domain: ''":                           "f:1:9: domain: is missing or empty; write the domain that Envoy sends",
		"domain: [d]":                          `f:1:9: domain: is a list; want text`,
		"0.25: d":                              `f:1:1: the name of a setting is "0.25"; want descriptors, domain`,
		"domain: d\ndomain: e":                 "f:2:1: domain: written twice, first in line 1; remove one",
		"domain: d\ndescriptors: {key: a}":     "f:2:14: descriptors: is a mapping; want a list",
		"domain: d\ndescriptors: [a]":          `f:2:15: a descriptor is "a"; want a mapping: descriptors, detailed_metric, key, metadata, quota_mode, rate_limit, shadow_mode, share_threshold, value, value_to_metric`,
		"domain: d\ndescriptors: [{value: v}]": "f:2:15: d: a descriptor without key; write the key that Envoy sends",
		key + "  - key: k":                     "f:4:5: d.k: a second descriptor of this key and value; join the two",
		key + "    ratelimit: 5":               "f:4:5: ratelimit: unknown setting; did you mean rate_limit? want descriptors, detailed_metric, key, metadata, quota_mode, rate_limit, shadow_mode, share_threshold, value, value_to_metric",
		key + "    rate_limit: 5":              `f:4:17: a rate_limit is "5"; want a mapping: name, replaces, requests_per_unit, unit, unlimited`,
		key + "    rate_limit: {unit: foo}":    `f:4:24: d.k: unknown unit "foo"; want second, minute, hour, day, week, month or year, or unlimited: true`,
		key + "    rate_limit: {}":             `f:4:17: d.k: unknown unit "unknown"; want second, minute, hour, day, week, month or year, or unlimited: true`,
		key + "    rate_limit: {unit: day, unlimited: true}":                                                  "f:4:24: d.k: unlimited and a unit; remove one of the two",
		key + "    rate_limit: {unit: day, requests_per_unit: -1}":                                            `f:4:48: requests_per_unit: is "-1"; want a whole number, 0 to 4294967295`,
		key + "    rate_limit: {unit: day, requests_per_unit: 4294967296}":                                    `f:4:48: requests_per_unit: is "4294967296"; want a whole number, 0 to 4294967295`,
		key + "    rate_limit: {unit: day, requests_per_unit: 1.5}":                                           `f:4:48: requests_per_unit: is "1.5"; want a whole number, 0 to 4294967295`,
		key + "    rate_limit: {unit: day, name: n, replaces: [{name: n}]}":                                   `f:4:24: d.k: replaces itself, "n"; write the name of another limit`,
		key + "    rate_limit: {unit: day, name: n, replaces: [{name: }]}":                                    "f:4:24: d.k: replaces a limit without name; write the name of the limit to replace",
		key + "    shadow_mode: maybe":                                                                        `f:4:18: shadow_mode: is "maybe"; want true or false`,
		key + "    share_threshold: true":                                                                     `f:3:5: d.k: share_threshold without a wildcard; write a value with "*", or remove share_threshold`,
		key + "    metadata: 5":                                                                               `f:4:15: metadata: is "5"; want a mapping`,
		key + "    <<: 5":                                                                                     `f:4:9: <<: merges "5"; want an alias of a mapping`,
		"domain: d\ndescriptors: " + strings.Repeat("[{key: k, descriptors: ", 64) + strings.Repeat("}]", 64): "f:2:1464: nested deeper than 64 levels; no request has so many entries",
	} {
		c, _, errs := ParseYAML("f", []byte(text))
		if c != nil && len(errs) == 0 {
			_, errs = New([]Config{*c}, false)
		}
		if got := errs.Error(); got != want {
			t.Errorf("%s:\n%s, want\n%s", text, got, want)
		}
	}
}

// TestIgnored: what upstream takes and ignores is a warning.
func TestIgnored(t *testing.T) {
	t.Parallel()
	const file = "domain: d\ndescriptors:\n  - key: k\n    unit: day\n---\ndomain: e\n"
	_, warnings, errs := ParseYAML("f", []byte(file))
	const want = "f:5:1: a second document is ignored; use a file for each\n" +
		"f:4:5: unit: has no meaning in a descriptor; want descriptors, detailed_metric, key, metadata, quota_mode, rate_limit, shadow_mode, share_threshold, value, value_to_metric"
	if got := warnings.Error(); got != want || len(errs) > 0 {
		t.Errorf("%v\n%s", errs, got)
	}
}

// TestAliasesAreBounded: a file of a kilobyte does not become millions of descriptors.
func TestAliasesAreBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("domain: d\ndescriptors:\n  - &a0 {key: k}\n")
	for i := range 16 {
		fmt.Fprintf(&b, "  - &a%d {key: k%d, descriptors: [*a%d, *a%d]}\n", i+1, i, i, i)
	}
	c, _, errs := parse("f", []byte(b.String()), 10_000)
	if n := total(c.Descriptors); n > 10_000 || len(errs) == 0 || !strings.Contains(errs.Error(), "aliases resolved") {
		t.Errorf("%d descriptors, %v", n, errs)
	}
	for _, loop := range []string{"domain: d\ndescriptors: &a\n  - key: k\n    descriptors: *a\n", "domain: d\ndescriptors:\n  - key: k\n    metadata: &m {a: *m}\n"} {
		if _, _, errs := ParseYAML("f", []byte(loop)); len(errs) == 0 || !strings.Contains(errs.Error(), "nested deeper") {
			t.Errorf("%s: %v", loop, errs)
		}
	}
}

func total(all []Descriptor) (n int) {
	for i := range all {
		n += 1 + total(all[i].Descriptors)
	}
	return n
}

// TestMergedDomains: files of one domain are an error, or one tree.
func TestMergedDomains(t *testing.T) {
	t.Parallel()
	limit := &Policy{Requests: 1, Unit: Second}
	one := Config{Name: "1", Domain: "d", Descriptors: []Descriptor{{Key: "a", Limit: limit}}}
	two := Config{Name: "2", Domain: "d", Descriptors: []Descriptor{{Key: "b", Limit: limit}}}
	if _, errs := New([]Config{one, two}, false); errs.Error() != `2: domain: "d" is in another file too; join the files, or set MERGE_DOMAIN_CONFIG=true` {
		t.Errorf("%v", errs)
	}
	limits, errs := New([]Config{one, two}, true)
	if errs != nil || limits.Len() != 2 {
		t.Errorf("%v", errs)
	}
	if _, errs := New([]Config{one, one}, true); errs.Error() != "1: d.a: a second descriptor of this key and value; join the two" {
		t.Errorf("%v", errs)
	}
}

func TestUnits(t *testing.T) {
	t.Parallel()
	for u, want := range map[Unit]time.Duration{
		0: 0, Second: time.Second, Minute: time.Minute, Hour: time.Hour, Day: 24 * time.Hour,
		Week: 168 * time.Hour, Month: 720 * time.Hour, Year: 8760 * time.Hour, 8: 0, 255: 0,
	} {
		if u.Duration() != want || u.Valid() != (want > 0) || u.Valid() && unitNamed(u.String()) != u {
			t.Errorf("%v: %v", u, u.Duration())
		}
	}
}

func FuzzParseYAML(f *testing.F) {
	f.Add([]byte(tree))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("domain: d\ndescriptors: [{<<: {<<: {key: k}}, metadata: {? [] : x}}]"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		if c, _, errs := ParseYAML("f", data); c != nil && len(errs) == 0 {
			if limits, errs := New([]Config{*c}, false); errs == nil {
				_ = limits.String()
			}
		}
	})
}
