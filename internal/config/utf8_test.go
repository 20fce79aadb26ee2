package config

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// The file itself is UTF-8, but a variable may hold anything. Whatever would be a name of a rule,
// or a key that its state is found by, is refused with file, line and setting; patterns of paths may
// hold any byte, which the key kind quotes.
func TestVariablesNotUTF8(t *testing.T) {
	t.Parallel()
	lookup := func(string) (string, bool) { return "x\xff", true }
	for setting, want := range map[string]string{
		`name: "${V}"`:                      `f.yaml:2:12: rules[0].name: "x\xff" is not a name; want a name of`,
		`name: a, key: "header:${V}"`:       `f.yaml:2:20: rules[0].key: key part with the name "x\xff": want the name of`,
		`name: a, key: "cookie:${V}"`:       `f.yaml:2:20: rules[0].key: key part with the name "x\xff": want the name of`,
		`name: a, match: {host: "${V}"}`:    `f.yaml:2:29: rules[0].match.host: host pattern "x\xff": not a host name`,
		`name: a, match: {method: "${V}"}`:  `f.yaml:2:31: rules[0].match.method: method "x\xff" is not`,
		`name: a, match: {path: "/${V}"}`:   "",
		`name: a, match: {path: ["*\xff"]}`: "",
	} {
		c, err := Parse("f.yaml", []byte("rules:\n  - {"+setting+", rate: 1/s}\n"), lookup)
		switch {
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%s: %v, want %s", setting, err, want)
		case want == "" && err != nil:
			t.Errorf("%s: %v", setting, err)
		case want == "" && !utf8.ValidString(c.Limiter().Rules[0].KeyKind):
			t.Errorf("%s: the key kind %q is not UTF-8", setting, c.Limiter().Rules[0].KeyKind)
		}
	}
}
