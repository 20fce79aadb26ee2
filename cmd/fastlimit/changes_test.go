package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// Every change says who made it, on a Unix socket by the name of the user, and what is refused is
// none.
func TestChanges(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(testkit.ShortDir(t), "admin.sock")
	file := writeFile(t, "c.yaml", "listen: 127.0.0.1:0\nadmin: unix:"+socket+"\nrules: [{name: r, rate: 1000/s}]\n")
	start(t, exec.Command(binary, "serve", "-c", file))
	run := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := command(t, nil, append(args, "--admin", "unix:"+socket)...)
		return fmt.Sprint(code, " ", stdout, stderr)
	}
	if got := run("changes"); got != "0 TIME  BY  CHANGE  DETAILS\n" {
		t.Errorf("at first: %s", got)
	}
	for _, args := range [][]string{
		{"ban", "198.51.100.0/24", "--reason", "a scraper"},
		{"ban", "0.0.0.0/0"},
		{"override", "set", "r", "192.0.2.7", "rate=5/s"},
		{"reset", "r", "192.0.2.8"},
		{"unban", "198.51.100.0/24"},
		{"reload"},
	} {
		if got, refused := run(args...), args[len(args)-1] == "0.0.0.0/0"; strings.HasPrefix(got, "0") == refused {
			t.Errorf("%q: %s", args, got)
		}
	}
	if err := os.WriteFile(file, []byte("rules: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	run("reload")
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	by := "user " + me.Username
	got := run("changes")
	for _, want := range []string{
		`(?m)^\S+Z +admin ` + by + ` +reload: nothing was changed +error=.*c\.yaml:1`,
		`(?m)^\S+Z +admin ` + by + ` +reloaded `,
		`(?m)^\S+Z +` + by + ` +ban ended +key=198\.51\.100\.0/24 rule=$`,
		`(?m)^\S+Z +` + by + ` +bucket reset +key=192\.0\.2\.8 rule=r$`,
		`(?m)^\S+Z +` + by + ` +override set +.*key=192\.0\.2\.7 limit=5/s`,
		`(?m)^\S+Z +` + by + ` +ban set +for=1h0m0s key=198\.51\.100\.0/24 reason="?a scraper"? until=`,
	} {
		at := regexp.MustCompile(want).FindStringIndex(got)
		if at == nil {
			t.Fatalf("%s is not in\n%s", want, got)
		}
		got = got[at[1]:] // the latest stand first
	}
	if all := run("changes"); strings.Contains(all, "0.0.0.0") || strings.Count(all, "\n") != 7 {
		t.Errorf("changes that were none:\n%s", all)
	}
	if got := run("changes", "-n", "2"); strings.Count(got, "\n") != 4 || !strings.HasSuffix(got, "and 4 more\n") {
		t.Errorf("two of them:\n%s", got)
	}
	if got := run("changes", "-n", "1", "-o", "json"); !strings.HasPrefix(got, `0 {"changes":[{"time":"20`) || !strings.HasSuffix(got, `"total":6}`+"\n") {
		t.Errorf("as JSON: %s", got)
	}
	if got := run("changes", "-n", "0") + run("changes", "-n", "1001"); !strings.Contains(got, "-n 0: want 1 to 1000") || !strings.Contains(got, "limit=1001: want a whole number from 1 to 1000") {
		t.Error(got)
	}
}

// On TCP the address is who it was.
func TestChangesByAddress(t *testing.T) {
	t.Parallel()
	p := serve(t, "-c", writeFile(t, "c.yaml", "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nrules: [{name: r, rate: 1000/s}]\n"))
	if code, _, stderr := command(t, nil, "reset", "r", "192.0.2.8", "--admin", p.admin); code != 0 {
		t.Fatal(stderr)
	}
	if _, body := get(t, http.DefaultClient, "http://"+p.admin+"/v1/changes"); !regexp.MustCompile(`^\{"changes":\[\{"time":"[^"]+","by":"127\.0\.0\.1","what":"bucket reset","details":\{"key":"192\.0\.2\.8","rule":"r"\}\}\],"total":1\}\n$`).MatchString(body) {
		t.Error(body)
	}
}

// Tokens have the names of who sends them, for the log, and scopes.
func TestTokens(t *testing.T) {
	t.Parallel()
	alice, grafana := writeFile(t, "alice", "0123456789abcdef\n"), writeFile(t, "grafana", "fedcba9876543210\n")
	p := start(t, exec.Command(binary, "serve", "-c", writeFile(t, "c.yaml",
		"listen: 127.0.0.1:0\nadmin: {address: \"0.0.0.0:0\", tokens: [{name: alice, file: "+alice+"}, {name: grafana, file: "+grafana+", scope: read}]}\ntop_talkers: 64\nrules: [{name: r, rate: 1000/s}]\n")))
	run := func(token string, args ...string) string {
		t.Helper()
		if token != "" {
			args = append(args, "--token-file", token)
		}
		code, stdout, stderr := command(t, nil, append(args, "--admin", strings.Replace(p.admin, "0.0.0.0", "127.0.0.1", 1))...)
		return fmt.Sprint(code, " ", stdout, stderr)
	}
	for _, args := range [][]string{{"top"}, {"bans"}, {"changes"}, {"rule"}, {"override", "list"}, {"explain", "192.0.2.7"}} {
		if got := run("", args...); !strings.HasPrefix(got, "1 ") || !strings.Contains(got, "reading needs one, or one with the scope act") {
			t.Errorf("%q without a token: %s", args, got)
		}
		if got := run(grafana, args...); !strings.HasPrefix(got, "0 ") {
			t.Errorf("%q: %s", args, got)
		}
	}
	if got := run(grafana, "ban", "198.51.100.0/24"); !strings.Contains(got, "the token of grafana has the scope read: changes need one with the scope act") {
		t.Error(got)
	}
	if got := run(alice, "ban", "198.51.100.0/24"); !strings.HasPrefix(got, "0 ") {
		t.Error(got)
	}
	if got := run(grafana, "changes"); !strings.Contains(got, "alice (127.0.0.1)  ban set ") {
		t.Error(got)
	}
}
