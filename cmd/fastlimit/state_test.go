package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/frames"
)

// stateConfig is a file of a node with a rule of 30 at once, and with a state file unless
// the path is "".
func stateConfig(t *testing.T, path string) string {
	t.Helper()
	text := "rules: [{name: r, key: ip, rate: 1/h, burst: 20}]\nmemory: 1MiB\ndrain: {delay: 0s}\n"
	if path != "" {
		text += "state_file: " + path + "\n"
	}
	return writeFile(t, "fastlimit.yaml", text)
}

// sent sends n requests from an address and returns how many were admitted.
func sent(t *testing.T, p *process, from string, n int) (admitted int) {
	t.Helper()
	c := clientFrom(t, from)
	for range n {
		resp, _ := get(t, c, "http://"+p.listen+"/")
		switch resp.StatusCode {
		case http.StatusOK:
			admitted++
		case http.StatusTooManyRequests, http.StatusForbidden:
		default:
			t.Fatalf("status %d", resp.StatusCode)
		}
	}
	return admitted
}

func (p *process) terminate() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		p.t.Fatalf("exit code %d", code)
	}
}

// metric is the value of a series.
func metric(t *testing.T, p *process, series string) string {
	t.Helper()
	_, text := get(t, http.DefaultClient, "http://"+p.admin+"/metrics")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// TestRestart: an attacker that is over its limit before a restart is over it after, and so is
// whoever an operator has banned, while a client that has no limit for a while has none. Without
// state_file all begin anew.
func TestRestart(t *testing.T) {
	t.Parallel()
	for _, with := range []bool{false, true} {
		path, again := "", 30
		if with {
			path, again = filepath.Join(t.TempDir(), "state"), 0
		}
		file := stateConfig(t, path)
		p := serve(t, "-c", file)
		first := sent(t, p, "127.0.0.1", 100)
		banned := bytes.NewReader([]byte(`{"key":"127.0.0.3","for":"1h"}`))
		resp, err := http.Post("http://"+p.admin+"/v1/bans", "application/json", banned)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("ban: %v, %v", resp, err)
		}
		resp.Body.Close()
		if code, stdout, stderr := command(t, nil, "override", "set", "r", "127.0.0.4", "unlimited", "--admin", p.admin); code != 0 {
			t.Fatal(stdout, stderr)
		}
		p.terminate()
		p = serve(t, "-c", file)
		if free := sent(t, p, "127.0.0.4", 50); (free == 50) != with {
			t.Errorf("with state_file %v: of a client without limit %d of 50 are admitted", with, free)
		}
		second, neighbour, ban := sent(t, p, "127.0.0.1", 100), sent(t, p, "127.0.0.2", 20), sent(t, p, "127.0.0.3", 1)
		t.Logf("with state_file %v: an attacker is admitted %d times before a restart and %d times after", with, first, second)
		if first != 30 || second != again || neighbour != 20 {
			t.Errorf("with state_file %v: %d admitted before, %d after, want 30 and %d; of a neighbour within its limit %d of 20", with, first, second, again, neighbour)
		}
		if (ban == 0) != with {
			t.Errorf("with state_file %v: whom an operator has banned is admitted %d times", with, ban)
		}
		if !with {
			continue
		}
		if got := metric(t, p, `fastlimit_state_loaded{result="loaded"}`); got != "1" {
			t.Errorf("fastlimit_state_loaded: %q", got)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
			t.Errorf("%v, %v", info, err)
		}
	}
}

// TestStatesOfNoUse: one warning says why, and the node serves, and replaces the file.
func TestStatesOfNoUse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	file := stateConfig(t, path)
	p := serve(t, "-c", file)
	sent(t, p, "127.0.0.1", 40)
	p.terminate()
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	node := bytes.Index(good, []byte("fastlst\n")) // where the limiter's part begins
	changed := func(at int, to byte) []byte {
		b := bytes.Clone(good)
		b[at] = to
		return b
	}
	for why, content := range map[string][]byte{
		"foreign":    []byte("rules: [{name: per-ip, rate: 1/s}]"),
		"version":    changed(node+8, 77),
		"torn":       good[:len(good)-20],
		"damaged":    changed(len(good)/2, good[len(good)/2]+1),
		"future":     ofInstant(t, good, func(at map[string]any) { at["Up"], at["Wall"] = 1<<60, time.Now().Add(time.Hour) }),
		"machine":    ofInstant(t, good, func(at map[string]any) { at["Machine"] = "another" }),
		"unreadable": nil,
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if content == nil { // a directory in its place
			if err := os.Remove(path); err != nil || os.Mkdir(path, 0o700) != nil {
				t.Fatal(err)
			}
			code, _, stderr := command(t, nil, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "-c", file)
			if code != 1 || !strings.Contains(stderr, "state_file:") || !strings.Contains(stderr, "is a directory") {
				t.Errorf("a directory: exit code %d, %s", code, stderr)
			}
			_ = os.Remove(path)
			continue
		}
		p := serve(t, "-c", file)
		if got := sent(t, p, "127.0.0.1", 40); got != 30 {
			t.Errorf("%s: %d admitted", why, got)
		}
		if got := metric(t, p, fmt.Sprintf("fastlimit_state_loaded{result=%q}", why)); got != "1" {
			t.Errorf("%s: fastlimit_state_loaded{result=%q} is %q", why, why, got)
		}
		p.terminate()
		p.mu.Lock()
		if log := p.log.String(); strings.Count(log, "the state file is ignored") != 1 || !strings.Contains(log, "reason="+why) {
			t.Errorf("%s: %s", why, log)
		}
		p.mu.Unlock()
		p = serve(t, "-c", file)
		if got := sent(t, p, "127.0.0.1", 5); got != 0 {
			t.Errorf("%s: %d admitted of an attacker by the process after", why, got)
		}
		p.terminate()
	}
}

// ofInstant is a file that was written at another instant of the machine, with right checksums.
func ofInstant(t *testing.T, file []byte, change func(at map[string]any)) []byte {
	t.Helper()
	f, err := frames.NewReader(bytes.NewReader(file), nodeMagic, nodeVersion)
	if err != nil {
		t.Fatal(err)
	}
	_, body, err := f.Next()
	if err != nil {
		t.Fatal(err)
	}
	var n map[string]any
	if err := json.Unmarshal(body, &n); err != nil {
		t.Fatal(err)
	}
	change(n["At"].(map[string]any))
	if body, err = json.Marshal(n); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, err := frames.NewWriter(&out, nodeMagic, nodeVersion)
	if err == nil {
		err = w.Frame(frameNode, body)
	}
	if err == nil {
		err = w.End()
	}
	if err != nil {
		t.Fatal(err)
	}
	_, limiter, _ := bytes.Cut(file, []byte("fastlst\n"))
	return append(append(out.Bytes(), "fastlst\n"...), limiter...)
}

// TestSuccessor: a process that starts beside one that runs goes on with what that wrote
// last, and when that ends takes over what it has learnt since.
func TestSuccessor(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	file := stateConfig(t, path)
	p := serve(t, "-c", file)
	for end := time.Now().Add(hang); metric(t, p, "fastlimit_state_file_bytes") == "0"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing is written")
		}
	}
	next := serve(t, "-c", file)
	if got := metric(t, next, `fastlimit_state_loaded{result="held"}`); got != "1" {
		t.Errorf("fastlimit_state_loaded of the successor: %q", got)
	}
	if got := sent(t, p, "127.0.0.1", 100) + sent(t, next, "127.0.0.2", 10); got != 30+10 {
		t.Errorf("%d admitted", got)
	}
	p.terminate()
	next.waitLog("took over the state of the previous process")
	if got := metric(t, next, `fastlimit_state_loaded{result="merged"}`); got != "1" {
		t.Errorf("fastlimit_state_loaded: %q", got)
	}
	if got := sent(t, next, "127.0.0.1", 100); got != 0 {
		t.Errorf("an attacker that was over its limit at the process before: %d admitted", got)
	}
	if got := sent(t, next, "127.0.0.2", 10); got != 10 {
		t.Errorf("a client within its limit: %d of 10 admitted", got)
	}
	next.terminate()
	if got := sent(t, serve(t, "-c", file), "127.0.0.1", 10); got != 0 {
		t.Errorf("after a restart of the successor: %d admitted", got)
	}
}
