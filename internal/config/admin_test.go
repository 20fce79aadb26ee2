package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/server"
)

func TestAdminToken(t *testing.T) {
	t.Parallel()
	const good = "0123456789abcdef"
	files := map[string]string{"good": good + "\n", "short": "0123456789abcde\n", "blank": "0123456789 abcdef", "empty": "", "lines": good + "\n" + good, "other": "fedcba9876543210"}
	read := machine{readFile: func(path string) ([]byte, error) { return []byte(files[path]), nil }}
	for text, want := range map[string]struct{ admin, token, err string }{
		"admin: 127.0.0.1:9": {admin: "127.0.0.1:9"},
		"admin: {address: \"10.0.0.1:9\", token_file: good}": {admin: "10.0.0.1:9", token: good},
		"admin: {token_file: good}":                          {admin: DefaultAdmin, token: good},
		"admin: {address: \"10.0.0.1:9\"}":                   {admin: "10.0.0.1:9"},
		"admin: {token_file: short}":                         {err: "t:1:21: admin.token_file: the file does not contain a token; write at least 16"},
		"admin: {token_file: blank}":                         {err: "does not contain a token"},
		"admin: {token_file: empty}":                         {err: "does not contain a token"},
		"admin: {token_file: lines}":                         {err: "does not contain a token"},
		"admin: {address: x}":                                {err: "t:1:18: admin.address: \"x\" is not host:port"},
		"admin: {address: \"10.0.0.1:9\", tokens: [{name: al, file: good}, {name: gr, file: other, scope: read}]}": {admin: "10.0.0.1:9", token: "al:" + good + ":0 gr:fedcba9876543210:1"},
		"admin: {tokens: [{name: al, file: other}], token_file: good}":                                             {admin: DefaultAdmin, token: "al:fedcba9876543210:0 " + good},
		"admin: {tokens: [{name: al, file: good}], token_file: good}":                                              {err: "t:1:8: admin: two files contain the same token, one of them that of \"al\"; make one for each"},
		"admin: {tokens: [{name: al, file: good}, {name: al, file: other}]}":                                       {err: "two tokens have the name \"al\""},
		"admin: {tokens: [{name: al, file: short}]}":                                                               {err: "the file does not contain a token"},
		"admin: {tokens: [{file: good}]}":                                                                          {err: "write who has it"},
		"admin: {tokens: [{name: al}]}":                                                                            {err: "write for example file: /etc/fastlimit/alice"},
		"admin: {tokens: [{name: al, file: good, scope: write}]}":                                                  {err: "write act or read"},
		"admin: {tokens: good}":                                                                                    {err: "want a list such as"},
		"admin: {token: x}":                                                                                        {err: "unknown setting"},
		"admin: [127.0.0.1:9]":                                                                                     {err: "want"},
	} {
		c, err := parse("t", []byte(text+"\n"+rule), noEnv, read)
		switch {
		case want.err != "":
			if err == nil || !strings.Contains(err.Error(), want.err) || strings.Contains(err.Error(), good) {
				t.Errorf("%s: %v, want %q", text, err, want.err)
			}
		case err != nil || c.Server.Admin != want.admin || tokensText(c.Server.AdminTokens) != want.token:
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
}

func tokensText(all []server.AdminToken) string {
	var words []string
	for _, t := range all {
		if t.Name != "" {
			words = append(words, fmt.Sprintf("%s:%s:%d", t.Name, t.Secret, t.Scope))
		} else {
			words = append(words, t.Secret)
		}
	}
	return strings.Join(words, " ")
}

// Who writes a token believes that it is asked for.
func TestTokenWithoutEffect(t *testing.T) {
	t.Parallel()
	read := machine{readFile: func(string) ([]byte, error) { return []byte("0123456789abcdef"), nil }}
	for address, want := range map[string]bool{"127.0.0.1:9": true, "localhost:9": true, "'[::1]:9'": true, "unix:/run/a.sock": true, "10.0.0.1:9": false, "':9'": false, "0.0.0.0:9": false} {
		c, err := parse("t", []byte("admin: {address: "+address+", token_file: f}\n"+rule), noEnv, read)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(Warnings(c, plan(t, c)), func(w string) bool { return strings.HasPrefix(w, "admin.token_file: ") }); got != want {
			t.Errorf("%s: warned %v, want %v", address, got, want)
		}
		if c, err = parse("t", []byte("admin: {address: "+address+", tokens: [{name: al, file: f}]}\n"+rule), noEnv, read); err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(Warnings(c, plan(t, c)), func(w string) bool { return strings.HasPrefix(w, "admin.tokens: ") }); got != want {
			t.Errorf("%s: warned %v of names, want %v", address, got, want)
		}
	}
}
