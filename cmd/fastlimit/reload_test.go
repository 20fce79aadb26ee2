package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit"
)

// reloading is a server whose file changes.
type reloading struct {
	*process
	t    *testing.T
	file string
}

func serveReloading(t *testing.T, text string) *reloading {
	t.Helper()
	file := writeFile(t, "c.yaml", text)
	return &reloading{serve(t, "-c", file), t, file}
}

// status is that of a request.
func (r *reloading) status() int {
	r.t.Helper()
	resp, _ := get(r.t, http.DefaultClient, "http://"+r.listen+"/")
	return resp.StatusCode
}

// write replaces the file.
func (r *reloading) write(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.file, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// reload is fastlimit reload.
func (r *reloading) reload() (code int, stdout, stderr string) {
	return command(r.t, nil, "reload", "--admin", r.admin)
}

func (r *reloading) reloads(text string) {
	r.t.Helper()
	r.write(text)
	if code, stdout, stderr := r.reload(); code != 0 || stdout != "reloaded\n" {
		r.t.Fatalf("exit %d: %s%s", code, stdout, stderr)
	}
}

const hourly = "rules: [{name: per-ip, key: ip, rate: 1/h, burst: 1, strict: true%s}]\n%s"

// Whoever stands denied is served at once by a looser limit, in shadow mode and on the allow
// list, and is denied again when that is taken back: nothing was forgotten.
func TestReloadFreesTheDenied(t *testing.T) {
	t.Parallel()
	r := serveReloading(t, fmt.Sprintf(hourly, "", ""))
	r.status()
	denied := func(when string) {
		t.Helper()
		if code := r.status(); code != 429 {
			t.Errorf("%s: %d", when, code)
		}
	}
	denied("before")
	for what, text := range map[string]string{
		"shadow": fmt.Sprintf(hourly, ", mode: shadow", ""),
		"allow":  fmt.Sprintf(hourly, "", "allow: [127.0.0.0/8]\n"),
	} {
		r.reloads(text)
		if code := r.status(); code != 200 {
			t.Errorf("%s: %d", what, code)
		}
		r.reloads(fmt.Sprintf(hourly, "", ""))
		denied("after " + what)
	}
	// Other rules come and go beside it.
	r.reloads(fmt.Sprintf(hourly, "}, {name: other, key: path, rate: 1000/s", ""))
	denied("beside another rule")
	r.reloads(strings.Replace(fmt.Sprintf(hourly, "", ""), "burst: 1", "burst: 1000", 1))
	if code := r.status(); code != 200 {
		t.Errorf("by a looser limit: %d", code)
	}
	if n := r.metric(t, "fastlimit_config_last_reload_success"); n != 1 {
		t.Errorf("success is %v", n)
	}
}

// A file that is wrong changes nothing and is answered with all that is wrong and where; so is
// one that only a restart can take.
func TestReloadRefuses(t *testing.T) {
	t.Parallel()
	r := serveReloading(t, fmt.Sprintf(hourly, "", ""))
	r.status()
	for text, want := range map[string][]string{
		"rules: [{name: per-ip, rate: 5}]\nadmn: x\n":                                                              {r.file + ":1:30: rules[0].rate: ", r.file + ":2:1: admn: unknown setting"},
		fmt.Sprintf(hourly, "", "memory: 32MiB\n"):                                                                 {r.file + ":2:9: memory: cannot change while the node runs"},
		fmt.Sprintf(hourly, "", "connections: {body_bytes: 4KiB}"):                                                 {r.file + ":2:27: connections.body_bytes: cannot change"},
		fmt.Sprintf(hourly, "", "upstream: http://127.0.0.1:1\n"):                                                  {r.file + ":2:11: upstream: cannot change"},
		fmt.Sprintf(hourly, "", "redis: {url: redis://127.0.0.1:1}\nstate_file: "+filepath.Join(t.TempDir(), "s")): {":2:8: redis: cannot change", ":3:13: state_file: cannot change"},
		"": {r.file + ":1:1: rules: "},
	} {
		r.write(text)
		code, _, stderr := r.reload()
		for _, w := range want {
			if code != 1 || !strings.Contains(stderr, w) {
				t.Errorf("%q: exit %d without %q: %s", text, code, w, stderr)
			}
		}
		if len(strings.Split(strings.TrimSpace(stderr), "\n")) != len(want) {
			t.Errorf("%q: want %d lines: %s", text, len(want), stderr)
		}
		if code := r.status(); code != 429 {
			t.Errorf("%q: the rules before do not hold: %d", text, code)
		}
	}
	if ok, failed := r.metric(t, "fastlimit_config_last_reload_success"), r.metric(t, `fastlimit_config_reloads_total{result="failed"}`); ok != 0 || failed != 6 {
		t.Errorf("success %v, %v failed", ok, failed)
	}
	r.signal(syscall.SIGHUP)
	r.waitLog("cause=SIGHUP error=")
	r.write(fmt.Sprintf(hourly, ", mode: shadow", ""))
	r.signal(syscall.SIGHUP)
	r.waitLog(`msg=reloaded cause=SIGHUP changed="per-ip: 1/h burst 1 enforce -> 1/h burst 1 shadow"`)
	if code := r.status(); code != 200 {
		t.Errorf("after SIGHUP: %d", code)
	}
}

// TestChangesOfRules: what a reload logs of rules whose limit, mode or clients have changed.
func TestChangesOfRules(t *testing.T) {
	t.Parallel()
	plan := func(rules ...fastlimit.RuleConfig) *fastlimit.Plan {
		p, err := fastlimit.NewPlan(fastlimit.Config{Rules: rules})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	rule := func(name, kind string, n uint64) fastlimit.RuleConfig {
		return fastlimit.RuleConfig{Name: name, KeyKind: kind, Rate: fastlimit.Rate{N: n, Per: time.Second}, Burst: 9}
	}
	before := plan(rule("same", "ip", 1), rule("faster", "ip", 1), rule("matched", "ip", 1), rule("gone", "ip", 1))
	now := plan(rule("same", "ip", 1), rule("faster", "ip", 2), rule("matched", "ip /a", 1), rule("new", "ip", 1))
	want := "[added=new: 1/s burst 9 enforce removed=gone changed=faster: 1/s burst 9 enforce -> 2/s burst 9 enforce, " +
		"matched: 1/s burst 9 enforce -> 1/s burst 9 enforce, empty, as its key or match has changed]"
	if got := fmt.Sprint(changes(before, now)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// With watch, what has changed is read: a file that is written, one that is renamed over it,
// and the links by which Kubernetes replaces a ConfigMap.
func TestWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	version := func(n int, rest string) string {
		d := filepath.Join(dir, fmt.Sprintf("..v%d", n))
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "c.yaml"), fmt.Appendf(nil, hourly, rest, "watch: true\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return filepath.Base(d)
	}
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, "new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link(version(1, ""), "..data")
	link(filepath.Join("..data", "c.yaml"), "c.yaml")
	file := filepath.Join(dir, "c.yaml")
	r := &reloading{serve(t, "-c", file), t, file}
	r.status()
	becomes := func(what string, status int) {
		t.Helper()
		testkit.Eventually(t, what, func() bool { return r.status() == status })
	}
	becomes("denied", 429)
	link(version(2, ", mode: shadow"), "..data")
	becomes("the ConfigMap was replaced", 200)
	r.write(fmt.Sprintf(hourly, "", "watch: true\n")) // through the links
	becomes("the file was written", 429)
	other := filepath.Join(dir, "renamed")
	if err := os.WriteFile(other, fmt.Appendf(nil, hourly, ", mode: shadow", "watch: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, file); err != nil {
		t.Fatal(err)
	}
	becomes("another file was renamed", 200)
	r.write("nonsense")
	r.waitLog("nothing was changed")
	r.write(fmt.Sprintf(hourly, "", "watch: false\n"))
	becomes("it was mended", 429)
}

// Reloads of a program under load: every request is answered, and neither memory nor
// descriptors nor goroutines grow.
func TestReloadsUnderLoad(t *testing.T) {
	t.Parallel()
	text := func(i int) string {
		return fmt.Sprintf("deny_status: %d\nrules:\n  - {name: a, key: ip, rate: 100000/s, burst: %d}\n  - {name: b%d, key: path, rate: 100000/s}\n", 420+i%3, 100000+i%5, i%2)
	}
	r := serveReloading(t, text(0))
	reloads := testkit.Size(30, 100)
	if testing.Short() {
		reloads = 10
	}
	var load sync.WaitGroup
	var done atomic.Bool
	var answered, lost atomic.Int64
	for range 2 {
		load.Go(func() {
			client := &http.Client{Timeout: hang, Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for !done.Load() {
				resp, err := client.Get("http://" + r.listen + "/")
				if err != nil {
					lost.Add(1)
					continue
				}
				resp.Body.Close()
				answered.Add(1)
			}
		})
	}
	count := func(metric string) float64 { return r.metric(t, metric) }
	var fds, goroutines float64
	var rss int
	for i := range reloads {
		if i == reloads/4 { // by then all is there once
			fds, goroutines, rss = count("process_open_fds"), count("go_goroutines"), r.rss()
		}
		r.reloads(text(i + 1))
	}
	done.Store(true)
	load.Wait()
	if lost.Load() > 0 || answered.Load() < int64(reloads) {
		t.Errorf("%d answered, %d lost", answered.Load(), lost.Load())
	}
	testkit.Eventually(t, "nothing is left of the reloads", func() bool {
		return count("process_open_fds") <= fds && count("go_goroutines") <= goroutines
	})
	t.Logf("%d requests; RSS %d MiB after %d reloads, %d after all", answered.Load(), rss, reloads/4, r.rss())
	if now := r.rss(); !testing.Short() && now > rss+96 {
		t.Errorf("RSS grew from %d to %d MiB", rss, now)
	}
	if n := count(`fastlimit_config_reloads_total{result="ok"}`); n != float64(reloads) {
		t.Errorf("%v reloads are counted", n)
	}
}
