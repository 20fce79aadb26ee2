package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestNoSecrets: what clients send in headers, cookies and queries is in no log and in no answer
// to an operator, however long it is. A hash stands there instead, which fastlimit key knows, by
// which a client is unbanned and given another limit, and show_keys shows the rest.
func TestNoSecrets(t *testing.T) {
	t.Parallel()
	secrets := map[string]string{
		"short": "hunter2", "long": "sk_live_" + strings.Repeat("Q", 70), "session": "s3ss10n-of-alice", "token": "t0k3n-in-a-query", "other": "0ther value",
	}
	access := filepath.Join(t.TempDir(), "access.log")
	p := serve(t, "-c", writeFile(t, "c.yaml", fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
access_log: {file: %s}
show_keys: [x-tenant]
rules:
  - {name: key, key: ["header:X-Api-Key"], rate: 1/h, burst: 1, strict: true, ban: {after: 1, for: 1h}, overrides: [{key: [%s], rate: 2/h}]}
  - {name: both, key: [path, "cookie:sid", "header:X-Tenant"], rate: 1/h, burst: 1, strict: true, ban: {after: 1, for: 1h}}
`, access, secrets["token"])))
	ask := func(header, cookie string) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+p.listen+"/a?token="+secrets["token"], nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", header)
		req.Header.Set("X-Tenant", "acme")
		req.Header.Set("Referer", "http://a.example/?token="+secrets["token"])
		if cookie != "" {
			req.AddCookie(&http.Cookie{Name: "sid", Value: cookie})
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	for range 3 {
		ask(secrets["short"], "")
		ask(secrets["long"], "")
		ask(secrets["other"], secrets["session"])
	}
	hash := func(of string) string {
		t.Helper()
		code, stdout, stderr := command(t, strings.NewReader(secrets[of]+"\n"), "key", "-", "--admin", p.admin)
		if h := strings.TrimSpace(stdout); code == 0 && regexp.MustCompile(`^#[0-9a-f]{16}$`).MatchString(h) {
			return h
		}
		t.Fatalf("key of %s: %d %s%s", of, code, stdout, stderr)
		return ""
	}
	short, long, session := hash("short"), hash("long"), hash("session")
	var shown strings.Builder
	run := func(want int, args ...string) string {
		t.Helper()
		code, stdout, stderr := command(t, nil, append(args, "--admin", p.admin)...)
		if code != want {
			t.Errorf("%q: %d %s%s", args, code, stdout, stderr)
		}
		shown.WriteString(stdout + stderr)
		return stdout
	}
	for _, args := range [][]string{{"top"}, {"bans"}, {"override", "list"}} {
		text := run(0, args...) + run(0, append(args, "-o", "json")...)
		for _, h := range []string{short, long, session} {
			if !strings.Contains(text, h) && args[0] != "override" {
				t.Errorf("%q lacks %s:\n%s", args, h, text)
			}
		}
	}
	if listed := run(0, "override", "list"); !strings.Contains(listed, hash("token")) {
		t.Errorf("override list:\n%s", listed)
	}
	run(0, "override", "set", "key", short, "rate=5/s")
	if out := run(1, "override", "set", "key", long, "rate=5/s"); out != "" { // of which the end is not known
		t.Error(out)
	}
	if listed := run(0, "override", "list", "key"); !strings.Contains(listed, short+"  rate=5/s") {
		t.Errorf("override list:\n%s", listed)
	}
	ask(secrets["short"], "")
	run(0, "unban", long)
	run(0, "unban", "/a", session, "acme")
	run(0, "unban", "--rule", "key", short)
	if listed := run(0, "bans"); strings.Count(listed, "\n") != 2 || !strings.Contains(listed, hash("other")) {
		t.Errorf("bans:\n%s", listed)
	}
	run(0, "override", "delete", "key", short)
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p.mu.Lock()
	log := p.log.String()
	p.mu.Unlock()
	for _, line := range []string{"rule=key key=" + short + " for=", "rule=key key=" + long + " for=", `rule=both key="/a ` + session + ` acme" for=`, "rule=key key=" + short + " stage="} {
		if !strings.Contains(log, line) {
			t.Errorf("the log lacks %s", line)
		}
	}
	lines := readText(t, access)
	if strings.Count(lines, `"path":"/a",`) != 10 {
		t.Errorf("the access log:\n%s", lines)
	}
	for where, text := range map[string]string{"commands": shown.String(), "log": log, "access log": lines} {
		for name, secret := range secrets {
			if strings.Contains(text, secret[:min(7, len(secret))]) {
				t.Errorf("%s: the %s is there:\n%s", where, name, text)
			}
		}
	}
}
