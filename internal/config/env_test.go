package config

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestExpand(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"NAME": "web", "RATE": "100/s", "N": "200", "YES": "true", "THETA": "0.25", "EMPTY": "",
		"AGAIN": "${NAME}", "YAML": "a, burst: 1}, {name: b", "_x9": "x", "HOST": "192.0.2.1", "LIST": "[ip]", "LINES": "a\nb",
	}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	inRule := func(s string) string { return "rules: [{rate: 5/s, " + s + "}]" }
	for _, tt := range []struct {
		text string
		name string // of the rule; or else
		want string // words of the one error
	}{
		{inRule(`name: "${NAME}"`), "web", ""},
		{inRule(`name: "a-${NAME}-${_x9}"`), "a-web-x", ""},
		{"rules:\n- name: ${NAME}\n  rate: ${RATE}\n  burst: ${N}\n  escalate_at: ${THETA}\n", "web", ""},
		{inRule(`name: a, strict: "${YES}", burst: "${N}", cost: "1${EMPTY}"`), "a", ""},
		{"admin: ${HOST}:80\n" + rule, "a", ""},
		{inRule(`name: "$NAME"`), "", `"$NAME" is not a name`},
		{inRule(`name: "$${NAME}"`), "", `"${NAME}" is not a name`},
		{inRule(`name: "$$${NAME}"`), "", `"$${NAME}" is not a name`},
		{inRule(`name: "${AGAIN}"`), "", `"${NAME}" is not a name`}, // not twice
		{inRule(`name: "${YAML}"`), "", `"a, burst: 1}, {name: b" is not a name`},
		{inRule(`name: "${LINES}"`), "", `"a\nb" is not a name`},
		{inRule(`name: a, key: "${LIST}"`), "", `"[ip]" is not a key`},
		{inRule(`name: "${EMPTY}"`), "", "name: is empty"},
		{inRule(`name: "${NOPE}"`), "", "environment variable NOPE is not set"},
		{inRule(`name: "${}"`), "", `"" is not the name of an environment variable`},
		{inRule(`name: "${A-B}"`), "", `"A-B" is not the name`},
		{inRule(`name: "${9}"`), "", `"9" is not the name`},
		{inRule(`name: "${NAME"`), "", "${ without }"},
		{inRule(`name: a, "${NAME}": 1`), "", `${NAME}: unknown setting`}, // no keys
		{inRule(`name: a, burst: "${RATE}"`), "", `burst: "100/s" is not a whole number`},
		{"# ${NOPE}\n" + rule, "a", ""},
	} {
		c, err := Parse("f.yaml", []byte(tt.text), lookup)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.text, err)
		case tt.want == "" && c.Policy.Rules[0].Limit.Name != tt.name:
			t.Errorf("%s: got name %q, want %q", tt.text, c.Policy.Rules[0].Limit.Name, tt.name)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: got\n\t%v\nwant one error with\n\t%s", tt.text, err, tt.want)
		}
	}
	// Every variable that is missing is named.
	_, err := Parse("f.yaml", []byte(inRule(`name: "${A}${B}"`)), nil)
	if err == nil || !strings.Contains(err.Error(), "variable A") || !strings.Contains(err.Error(), "variable B") {
		t.Error(err)
	}
}

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
