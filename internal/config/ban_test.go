package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

func withBan(ban string) string {
	return "rules: [{name: a, rate: 100/s, burst: 200, ban: {" + ban + "}}]"
}

func TestBanSettings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]fastlimit.BanPolicy{
		withBan("after: 200, within: 10s, for: 30s, max: 1h"): {After: 200, Within: 10 * time.Second, For: 30 * time.Second, Max: time.Hour},
		withBan("after: 1, for: 1s"):                          {After: 1, Within: 10 * time.Second, For: time.Second},
		withBan("after: 65535, within: 600s, for: 366d"):      {After: 65535, Within: 10 * time.Minute, For: 8784 * time.Hour},
		withBan("after: 65535, within: 10m, for: 8784h"):      {After: 65535, Within: 10 * time.Minute, For: 8784 * time.Hour},
		withBan("after: 1, within: 1s, for: 5s, max: 5s"):     {After: 1, Within: time.Second, For: 5 * time.Second, Max: 5 * time.Second},
		"rules: [{name: a, rate: 100/s}]":                     {},
	} {
		c := mustParse(t, text)
		if got := c.Policy.Rules[0].Limit.Ban; got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
		if len(c.Policy.Rules) != 1 || !c.Policy.Rules[0].Prefixes.None() {
			t.Errorf("%s: rules %+v", text, c.Policy.Rules)
		}
		checkAccepted(t, c)
	}
}

func TestPrefixSettings(t *testing.T) {
	t.Parallel()
	c := mustParse(t, withBan("after: 1, for: 1s, prefixes: {v4: [24], v6: [56, 48], members: 20}"))
	if got, want := c.Policy.Rules[0].Prefixes, (policy.Prefixes{V4: []int{24}, V6: []int{56, 48}, Members: 20}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	var got []string
	for i := range c.Policy.Rules {
		r := &c.Policy.Rules[i]
		got = append(got, fmt.Sprint(r.Limit.Name, " ", r.Limit.Rate, " ", r.Limit.Burst, " ", r.Limit.Ban.After, " ", r.Counted()))
	}
	if want := []string{"a 100/s 200 1 ", "a/24 2000/s 4000 1 IPv4 /24", "a/56 2000/s 4000 1 IPv6 /56", "a/48 2000/s 4000 1 IPv6 /48"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	checkAccepted(t, c)
	if c := mustParse(t, withBan("after: 1, for: 1s, prefixes: {v6: [48]}")); c.Policy.Rules[1].Limit.Rate.N != 1600 {
		t.Errorf("16 members are the default: %+v", c.Policy.Rules[1].Limit)
	}
}

func TestBanErrors(t *testing.T) {
	t.Parallel()
	many := func(rules int) string {
		var b strings.Builder
		b.WriteString("memory: 1GiB\nrules:\n")
		for i := range rules {
			fmt.Fprintf(&b, "- {name: r%d, rate: 100/s, ban: {after: 1, for: 1s, prefixes: {v4: [24, 20, 16], v6: [56, 48, 40, 32]}}}\n", i)
		}
		return b.String()
	}
	for text, want := range map[string]string{
		withBan("after: 0, for: 30s"):                                                                  "f.yaml:1:57: rules[0].ban.after: 0 is too small; want at least 1",
		withBan("after: 65536, for: 30s"):                                                              "f.yaml:1:57: rules[0].ban.after: 65536 is out of range; want 1 to 65535",
		withBan("for: 30s"):                                                                            "f.yaml:1:49: rules[0].ban.after: missing; write for example ban: {after: 200, within: 10s, for: 30s, max: 1h}",
		withBan("after: 5"):                                                                            "f.yaml:1:49: rules[0].ban.for: missing; write for example for: 30s",
		withBan("after: 5, for: 30s, max: 20s"):                                                        "f.yaml:1:75: rules[0].ban.max: 20s is below for, 30s; raise it, or lower for",
		withBan("after: 5, for: 999ms"):                                                                "f.yaml:1:65: rules[0].ban.for: 999ms is out of range; want 1s to 8784h",
		withBan("after: 5, for: 8785h"):                                                                "f.yaml:1:65: rules[0].ban.for: 8785h is out of range; want 1s to 8784h",
		withBan("after: 5, for: 30s, within: 11m"):                                                     "f.yaml:1:78: rules[0].ban.within: 11m is out of range; want 1s to 10m",
		withBan("after: 5, for: 30s, within: 500ms"):                                                   "f.yaml:1:78: rules[0].ban.within: 500ms is out of range; want 1s to 10m",
		withBan("after: 5, for: 30s, bantime: 5s"):                                                     "rules[0].ban.bantime: unknown setting; valid here: after, within, for, max, prefixes",
		"rules: [{name: a, rate: 1/s, ban: 30s}]":                                                      "rules[0].ban: found the text \"30s\"; want settings, such as {after: 200",
		"ban: {after: 5, for: 30s}\n" + rule:                                                           "f.yaml:1:1: ban: unknown setting here; it belongs in a rule, indented like its name",
		withBan("after: 5, for: 30s, prefixes: {}"):                                                    "rules[0].ban.prefixes: has no prefix length; write for example v6: [56, 48]",
		withBan("after: 5, for: 9s, prefixes: {v4: 24}"):                                               "rules[0].ban.prefixes.v4: found 24; want a list of lengths such as [24]",
		withBan("after: 5, for: 9s, prefixes: {v4: [32]}"):                                             "f.yaml:1:85: rules[0].ban.prefixes.v4[0]: 32 is out of range; want 1 to 31",
		withBan("after: 5, for: 9s, prefixes: {v6: [64]}"):                                             "f.yaml:1:85: rules[0].ban.prefixes.v6[0]: /64 does not contain several clients of the rule, which are /64 each; want 1 to 63",
		withBan("after: 5, for: 9s, prefixes: {v6: [48, 40, 48]}"):                                     "f.yaml:1:93: rules[0].ban.prefixes.v6[2]: /48 is there twice; remove one of the two",
		withBan("after: 5, for: 9s, prefixes: {v6: [48], members: 1}"):                                 "rules[0].ban.prefixes.members: 1 is out of range; want 2 to 65536",
		"rules: [{name: a, key: path, rate: 1/s, ban: {after: 5, for: 9s, prefixes: {v4: [24]}}}]":     "f.yaml:1:76: rules[0].ban.prefixes: is for rules whose key is ip alone: other clients are in no prefix; remove it, or count by key: ip",
		"rules: [{name: a, key: ip/16/48, rate: 1/s, ban: {after: 5, for: 9s, prefixes: {v4: [24]}}}]": "rules[0].ban.prefixes.v4[0]: /24 does not contain several clients of the rule, which are /16 each; want 1 to 15",
		"rules: [{name: a, rate: 65533/s, burst: 9, ban: {after: 5, for: 9s, prefixes: {v4: [24], members: 1001}}}]": "f.yaml:1:79: rules[0].ban.prefixes: makes rule a/24: rate 65598533/s cannot be kept exactly; write other members, or another rate or burst of the rule",
		many(33): "rules[31].ban.prefixes: each length makes a rule, and with these there are 257; write fewer: want at most 256",
	} {
		_, err := Parse("f.yaml", []byte(text), noEnv)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s:\ngot  %v\nwant %s", text, err, want)
		} else if n := strings.Count(err.Error(), "\n"); n > 0 {
			t.Errorf("%.200s: %d errors more than the one:\n%v", text, n, err)
		}
	}
	if _, err := Parse("f.yaml", []byte(many(31)), noEnv); err != nil {
		t.Errorf("31 rules with 7 prefixes each: %v", err)
	}
}

func TestBansDescribed(t *testing.T) {
	t.Parallel()
	c := mustParse(t, withBan("after: 200, for: 30s, max: 1h, prefixes: {v4: [24], v6: [24, 48]}")[:len(withBan("after: 200, for: 30s, max: 1h, prefixes: {v4: [24], v6: [24, 48]}"))-1]+
		", {name: b, rate: 5/s, ban: {after: 1, for: 30s}, mode: shadow}]")
	text := Describe(c, plan(t, c))
	for _, want := range []string{
		"\nbans of rule a: a client that is denied 200 times within 10s is refused for 30s, each time twice as long, up to 1h; up to ",
		"\nbans of rule b: a client that is denied once is refused for 30s, except that mode: shadow only counts this; up to ",
		"\nrule a/24: each IPv4 and IPv6 /24 is a client too, for everything that rule a counts in it\n",
		"\nbans of rule a/48: a prefix that is denied 200 times within 10s is refused for 30s, each time twice as long, up to 1h; up to ",
		"\na/48  1600/s burst 3200  ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

func TestBanWarnings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		withBan("after: 5, for: 9s, prefixes: {v4: [24, 16], v6: [56, 32]}"):                            "",
		withBan("after: 5, for: 9s, prefixes: {v4: [15]}"):                                              "rule a: ban.prefixes.v4: a /15 contains the networks of many providers, all of which one attacker in it can get denied; write 16 or more",
		withBan("after: 5, for: 9s, prefixes: {v6: [31]}"):                                              "rule a: ban.prefixes.v6: a /31 contains",
		"rules: [{name: a, key: global, rate: 100/s, ban: {after: 5, for: 9s}}]":                        "rule a: ban: the key does not distinguish clients, so a ban refuses everybody that the rule applies to; remove it, or count by ip",
		"rules: [{name: a, key: [host, path], rate: 100/s, ban: {after: 5, for: 9s}}]":                  "rule a: ban: the key does not distinguish clients",
		"rules: [{name: a, key: [path, 'cookie:s'], rate: 100/s, ban: {after: 5, for: 9s}}]":            "",
		"rules: [{name: a, key: global, rate: 100/s}]":                                                  "",
		"rules: [{name: a, rate: 100/s, strict: true, ban: {after: 5, for: 9s, prefixes: {v4: [24]}}}]": "note: rule a: strict checks every request",
	} {
		c := mustParse(t, text)
		all := remarksOf(t, c)
		if want == "" && len(all) > 0 || want != "" && (len(all) != 1 || !strings.HasPrefix(all[0], want)) {
			t.Errorf("%s:\ngot  %q\nwant %q", text, all, want)
		}
	}
}
