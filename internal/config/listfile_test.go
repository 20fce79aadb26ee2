package config

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/internal/lists"
)

// withFiles parses settings beside a rule, on a machine with these files.
func withFiles(settings string, files map[string]string) (*Config, error) {
	m := machine{readFile: func(path string) ([]byte, error) {
		text, ok := files[path]
		if !ok {
			return nil, errors.New("no such file")
		}
		return []byte(text), nil
	}}
	return parse("f.yaml", []byte(settings+"\n"+rule), noEnv, m)
}

func TestListFiles(t *testing.T) {
	t.Parallel()
	files := map[string]string{"cdn.txt": "10.0.0.0/8\n2001:db8::/32 # them\n", "bad": "192.0.2.7\n", "empty": "# none\n"}
	for text, want := range map[string]string{
		"allow: {file: cdn.txt}":                                     "[10.0.0.0/8 2001:db8::/32] [] [cdn.txt:2]",
		"allow: [172.16.0.0/12, {file: cdn.txt}, 127.0.0.1]":         "[172.16.0.0/12 127.0.0.1/32 10.0.0.0/8 2001:db8::/32] [] [cdn.txt:2]",
		"allow: [{file: cdn.txt}, {file: bad}]\ndeny: {file: bad}":   "[10.0.0.0/8 2001:db8::/32 192.0.2.7/32] [192.0.2.7/32] [cdn.txt:2 bad:1 bad:1]",
		"deny:\n  - 192.0.2.0/24\n  - file: empty\nallow: [\"::1\"]": "[::1/128] [192.0.2.0/24] [empty:0]",
	} {
		c, err := withFiles(text, files)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var of []string
		for _, f := range c.Lists.Files {
			of = append(of, fmt.Sprintf("%s:%d", f.Path, len(f.Prefixes)))
		}
		if got := fmt.Sprint(c.Policy.Allow, c.Policy.Deny, of); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
		if n := len(c.Policy.Allow) + len(c.Policy.Deny); c.Lists.Count() != n || c.ListMemory() != int64(n)*lists.EntryBytes {
			t.Errorf("%s: %d entries counted of %d", text, c.Lists.Count(), n)
		}
		checkAccepted(t, c)
	}
	c, err := withFiles("allow: [{file: cdn.txt}]\ndeny: {file: bad}", files)
	if err != nil {
		t.Fatal(err)
	}
	if text := Describe(c, plan(t, c)); !strings.Contains(text, "\nlists: 2 entries of allow, 1 of deny, at most 960 B on top of memory; 2 from cdn.txt, 1 from bad\n") {
		t.Error(text)
	}
}

func TestListFileMistakes(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"bad": "10.0.0.0/8\n 10.0.0.1/8\nx\n", "ok": "::1\n", "large": strings.Repeat(" ", lists.MaxFile+1),
		"half": strings.Repeat("::1\n", lists.MaxEntries/2+1),
	}
	for text, want := range map[string]string{
		"allow: 10.0.0.0/8":                       `f.yaml:1:8: allow: found the text "10.0.0.0/8"; want a list such as [192.0.2.0/24, {file: cdn.txt}]`,
		"allow: [{file: none}]":                   `f.yaml:1:16: allow[0].file: "none" no such file; name a file that can be read`,
		"allow: [{files: ok}]":                    "f.yaml:1:9: allow[0].file: missing; name a file: {file: cdn.txt}\nf.yaml:1:10: allow[0].files: unknown setting; did you mean file? valid here: file",
		"deny: {}":                                "f.yaml:1:7: deny.file: missing; name a file: {file: cdn.txt}",
		"deny: [{file: ok}, {file: ok}]":          `f.yaml:1:27: deny[1].file: "ok" is already in the list; remove one of the two`,
		"deny: {file: large}":                     `f.yaml:1:14: deny.file: "large" is larger than 64MiB; is this the right file?`,
		"deny: {file: half}\nallow: {file: half}": `f.yaml:2:8: allow: 1000002 entries of allow and deny; want at most 1000000: merge neighbours into shorter prefixes`,
		"trusted_proxies: [{file: ok}]":           `f.yaml:1:19: trusted_proxies[0]: found a mapping; want a prefix such as 192.0.2.0/24`,
		"allow: [{file: bad}, 10.0.0.300]\ndeny: [{file: ok}, 1.2.3.4/33]": `f.yaml:1:22: allow[1]: "10.0.0.300" is neither an address nor a prefix; write for example 192.0.2.0/24, 2001:db8::/32 or 192.0.2.7
f.yaml:2:20: deny[1]: "1.2.3.4/33" is not a prefix; write for example 192.0.2.0/24, 2001:db8::/32 or 192.0.2.7
bad:2:2: allow[0].file: 10.0.0.1/8 has bits set beyond its length; write 10.0.0.0/8, or 10.0.0.1 for the one address
bad:3:1: allow[0].file: "x" is neither an address nor a prefix; write for example 192.0.2.0/24, 2001:db8::/32 or 192.0.2.7`,
	} {
		if _, err := withFiles(text, files); err == nil || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
	if _, err := Parse("f.yaml", []byte("allow: {file: x}\n"+rule), noEnv); err == nil || !strings.Contains(err.Error(), `"x" is not read here; write the prefixes themselves`) {
		t.Errorf("without files: %v", err)
	}
}

// A file of thousands of doubtful entries makes a few warnings.
func TestListWarningsAreFew(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for i := range 100 {
		fmt.Fprintln(&all, netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(100 + i), 0, 0, 0}), 8).Masked())
	}
	c, err := withFiles("allow: {file: a}\ndeny: [{file: a}, {file: b}]", map[string]string{"a": all.String(), "b": ""})
	if err != nil {
		t.Fatal(err)
	}
	w := Warnings(c, plan(t, c))
	if len(w) < 1+maxListWarnings+1 || w[0] != "deny: b has no entries" || w[11] != "allow: 90 more entries like these" {
		t.Errorf("%d: %q, %q", len(w), w[0], w[len(w)-3:])
	}
}
