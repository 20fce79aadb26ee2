package config

import (
	"slices"
	"strings"
	"testing"
)

func TestAdminToken(t *testing.T) {
	t.Parallel()
	const good = "0123456789abcdef"
	files := map[string]string{"good": good + "\n", "short": "0123456789abcde\n", "blank": "0123456789 abcdef", "empty": "", "lines": good + "\n" + good}
	read := machine{readFile: func(path string) ([]byte, error) { return []byte(files[path]), nil }}
	for text, want := range map[string]struct{ admin, token, err string }{
		"admin: 127.0.0.1:9": {admin: "127.0.0.1:9"},
		"admin: {address: \"10.0.0.1:9\", token_file: good}": {admin: "10.0.0.1:9", token: good},
		"admin: {token_file: good}":                          {admin: DefaultAdmin, token: good},
		"admin: {address: \"10.0.0.1:9\"}":                   {admin: "10.0.0.1:9"},
		"admin: {token_file: short}":                         {err: "t:1:21: admin.token_file: the file holds no token; write at least 16"},
		"admin: {token_file: blank}":                         {err: "holds no token"},
		"admin: {token_file: empty}":                         {err: "holds no token"},
		"admin: {token_file: lines}":                         {err: "holds no token"},
		"admin: {address: x}":                                {err: "t:1:18: admin.address: \"x\" is not host:port"},
		"admin: {token: x}":                                  {err: "unknown setting"},
		"admin: [127.0.0.1:9]":                               {err: "want"},
	} {
		c, err := parse("t", []byte(text+"\n"+rule), noEnv, read)
		switch {
		case want.err != "":
			if err == nil || !strings.Contains(err.Error(), want.err) || strings.Contains(err.Error(), good) {
				t.Errorf("%s: %v, want %q", text, err, want.err)
			}
		case err != nil || c.Server.Admin != want.admin || c.Server.AdminToken != want.token:
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
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
	}
}
