package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/mistake"
	"github.com/fastlimit/fastlimit/limit"
)

const rule = "rules: [{name: a, rate: 5/s}]\n"

// TestSyntax has what is wrong before any setting is looked at. The error is
// one, since what follows cannot be told.
func TestSyntax(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "f.yaml:1:1: rules: missing; nothing would be limited: " + rulesExample},
		{"comments only", "# nothing\n\n", "f.yaml:1:1: rules: missing; nothing would be limited: " + rulesExample},
		{"empty document", "---\n", "f.yaml:1:1: rules: missing; nothing would be limited: " + rulesExample},
		{"no rules", "memory: 64MiB\n", "f.yaml:1:1: rules: missing; nothing would be limited: " + rulesExample},
		{"null rules", "rules:\n", "f.yaml:1:1: rules: no rules: nothing would be limited; " + rulesExample},
		{"empty rules", "rules: []\n", "f.yaml:1:8: rules: no rules: nothing would be limited; " + rulesExample},
		{"rules of another type", "rules: 5\n", "f.yaml:1:8: rules: found 5; want a list: " + rulesExample},
		{"text", "hello\n", `f.yaml:1:1: found the text "hello"; want settings, such as rules:`},
		{"list", "- a\n", "f.yaml:1:1: found a list; want settings, such as rules:"},
		{"number", "5\n", "f.yaml:1:1: found 5; want settings, such as rules:"},
		{"second document", rule + "---\n" + rule, "f.yaml:2:1: a second document; one file holds one configuration: remove what follows"},
		{"document after end", rule + "...\n" + rule, "f.yaml:3:1: a second document; one file holds one configuration: remove what follows"},
		{"directive", "%YAML 1.2\n---\n" + rule, "f.yaml:1:1: a YAML directive; remove the line"},
		{"complex key", "? rules\n: 5\n", `f.yaml:1:1: a complex key ("? "); write key: value`},
		{"tab", "rules:\n\t- name: a\n", "f.yaml:2:1: YAML: found character '\t' that cannot start any token; indent with spaces instead of tabs"},
		{"open list", "allow: [10.0.0.0/8\nrules: 5\n", "f.yaml:2:1: YAML: ',' or ']' must be specified; close the bracket, or put the value in quotes"},
		{"open quotes", "admin: \"abc\nrules: 5\n", "f.yaml:1:8: YAML: could not find end character of double-quoted text; close the quotes"},
		{"unquoted variable in a flow", "x: {a: ${X}}\n", "f.yaml:1:9: YAML: ',' or '}' must be specified; put quotes around \"${…}\""},
		{"reserved character", "admin: @foo\n", "f.yaml:1:8: YAML: '@' is a reserved character; put the value in quotes"},
		{"bad indent", "admin: a\n  memory: 5\n", "f.yaml:1:8: line 2 is indented more than this one, which has a value; indent all settings of a block alike"},
		{"bare star", "rules: [{name: a, match: {path: *}}]\n", ""},
		{"not UTF-8", "# \xe4\n" + rule, "f.yaml:1:3: not UTF-8; save the file as UTF-8"},
		{"UTF-16", "\xff\xfer\x00", "f.yaml:1:1: not UTF-8; save the file as UTF-8"},
		{"NUL", "rules:\r\n  ä\x00\n", `f.yaml:2:4: control character "\x00"; remove it`},
		{"escape", "admin: \x1b[31m\n", `f.yaml:1:8: control character "\x1b"; remove it`},
		{"too large", strings.Repeat("#", maxFile+1), "f.yaml:1:1: larger than 1 MiB; a configuration is a few KiB: is this the right file?"},
		{"deep flow", "x: " + strings.Repeat("[", 1000), "f.yaml:1:36: nested deeper than 32 levels; no setting is"},
		{"deep flow after ends", strings.Repeat("]", 40) + strings.Repeat("[", 40), "f.yaml:1:73: nested deeper than 32 levels; no setting is"},
		{"deep entries", strings.Repeat("- ", 1000), "f.yaml:1:65: nested deeper than 32 levels; no setting is"},
		{"deep blocks", deepBlocks(1000), "f.yaml:33:33: nested deeper than 32 levels; no setting is"},
		{"many keys", strings.Repeat("a: 1\n", 7000), "f.yaml:6001:2: more than 6000 keys; 256 rules need fewer: is this the right file?"},
	} {
		_, err := Parse("f.yaml", []byte(tt.text), noEnv)
		var all mistake.Errors
		switch {
		case !errors.As(err, &all) || len(all) != 1:
			t.Errorf("%s: got %d errors: %v", tt.name, len(all), err)
		case tt.want != "" && err.Error() != tt.want:
			t.Errorf("%s: got\n%v\nwant\n%v", tt.name, err, tt.want)
		}
	}
}

func deepBlocks(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

// TestGlue has colons without a space in lists, which YAML takes for text
// wherever they stand.
func TestGlue(t *testing.T) {
	t.Parallel()
	const text = `{listen: [127.0.0.1:80, localhost:1, "a:2"], allow: [2001:db8::/32, 10.0.0.0/8],
		rules: [{name: a, rate: 5/s, key: [ip, header:A, cookie:1, cookie:true]}]}`
	c := mustParse(t, text)
	got := fmt.Sprint(listenersOf(c)+" ", c.Policy.Allow, c.Policy.Rules[0].Key)
	const want = "[{127.0.0.1:80 429} {localhost:1 429} {a:2 429}] [2001:db8::/32 10.0.0.0/8] [ip header:A cookie:1 cookie:true]"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, element := range []string{"header: A", `header:"A"`, "header:", "{header:A}", "{header: A}"} {
		text := "rules: [{name: a, rate: 5/s, key: [ip, " + element + "]}]"
		if _, err := Parse("f.yaml", []byte(text), noEnv); err == nil {
			t.Errorf("%s: no error", element)
		}
	}
}

// TestLargest reads the largest file that the bounds are meant for: every rule
// there may be, all with every setting, a line each.
func TestLargest(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("memory: 1GiB\nrules:\n")
	for i := range limit.MaxRules {
		fmt.Fprintf(&b, `
  - name: rule-%d
    key:
      - ip/24/48
      - header:X-Api-Key
    match:
      host:
        - example.com
        - "*.example.com"
      path:
        - /api/*
      method:
        - GET
    rate: 100/s
    burst: 200
    cost: 1
    mode: shadow
    escalate_at: 0.25
    strict: false
    on_failure: local
`, i)
	}
	b.WriteString("deny:\n")
	for i := range 50_000 {
		fmt.Fprintf(&b, "  - 10.%d.%d.0/24\n", i>>8, i&255)
	}
	c := mustParse(t, b.String())
	if len(c.Policy.Rules) != limit.MaxRules || len(c.Policy.Deny) != 50_000 {
		t.Errorf("%d rules, %d denied", len(c.Policy.Rules), len(c.Policy.Deny))
	}
}

// TestForms has what reads alike in different spellings.
func TestForms(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"byte order mark": "\ufeff" + rule,
		"CRLF":            "# x\r\nrules:\r\n  - name: a\r\n    rate: 5/s\r\n",
		"CR":              "rules:\r  - name: a\r    rate: 5/s\r",
		"document start":  "# x\n---\n" + rule,
		"document end":    rule + "...\n",
		"JSON":            `{"rules": [{"name": "a", "rate": "5/s"}]}`,
		"quoted keys":     "'rules':\n- \"name\": 'a'\n  rate: '5/s'\n",
		"no indent":       "rules:\n- name: a\n  rate: 5/s\n",
		"no newline":      "rules: [{name: a, rate: 5/s}]",
		"comments":        "rules: # of all\n  # first\n  - name: a # its name\n    # and\n    rate: 5/s\n# end",
		"trailing comma":  "rules: [{name: a, rate: 5/s,},]",
		"tab as a space":  "rules:\n  - name:\ta\n    rate: 5/s\n",
	} {
		c, err := Parse("f.yaml", []byte(text), noEnv)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r := c.Policy.Rules; len(r) != 1 || r[0].Limit.Name != "a" || r[0].Limit.Rate.String() != "5/s" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestHostileSize feeds what the parser would take minutes or gigabytes for.
// The deadline is of the kind that only a broken guard misses.
func TestHostileSize(t *testing.T) {
	t.Parallel()
	const size = maxFile / 8
	unit := map[string]string{}
	for _, s := range []string{"[", "{", "- ", "? ", "a: ", "a: b\n", "- a: b\n", "{a: ", "&a ", "*a ", "!a ", "---\n", "\n", "\"", "'", "|\n", "x\n ", "[],", "<<: *a\n", ": ", "}", "]"} {
		unit[s] = strings.Repeat(s, size/len(s))
	}
	unit["rules: [..."] = "rules: [" + strings.Repeat("{},", size/4) + "]"
	unit["allow: [..."] = "allow: [" + strings.Repeat("x,", size/3) + "]"
	unit["]…["] = strings.Repeat("]", size/2) + strings.Repeat("[", size/2)
	unit["indents"] = deepBlocks(700)
	for name, text := range unit {
		done := make(chan error, 1)
		go func() {
			_, err := Parse("f.yaml", []byte(text), noEnv)
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil {
				t.Errorf("%q repeated: no error", name)
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("%q repeated: still not parsed", name)
		}
	}
}
