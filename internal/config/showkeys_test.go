package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit"
)

func TestShowKeys(t *testing.T) {
	t.Parallel()
	const rules = "\nrules: [{name: r, rate: 5000/s, key: [ip, \"header:X-Tenant\", \"cookie:plan\"]}]\n"
	for text, want := range map[string]string{
		"":                        "[] ",
		"show_keys: []":           "f.yaml:1:12: show_keys: the list is empty; write an element, or remove the setting",
		"show_keys: false":        "[] ",
		"show_keys: true":         "[*] ",
		"show_keys: x-tenant":     "[x-tenant] ",
		"show_keys: [plan, X]":    `[plan X] show_keys: no rule counts by a header or cookie "X"`,
		"show_keys: [5]":          `f.yaml:1:13: show_keys[0]: 5 is not text; write it in quotes: "5"`,
		"show_keys: {x: y}":       "f.yaml:1:12: show_keys",
		"show_keys: [[X-Tenant]]": "f.yaml:1:13: show_keys[0]",
	} {
		c, err := LoadFrom("f.yaml", strings.NewReader(text+rules), noEnv)
		got := fmt.Sprint(err)
		if err == nil {
			limits := c.Limiter()
			p, err := fastlimit.NewPlan(limits)
			if err != nil {
				t.Fatal(err)
			}
			got = fmt.Sprint(c.Policy.ShowKeys, " ", strings.Join(Warnings(c, p), "; "))
		}
		if err == nil && got != want || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
