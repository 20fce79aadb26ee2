package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// A rule that denies is loosened for a while: at once, for clients that are denied already, on this
// node, as all that shows rules says. It outlives a reload and a restart, and ends by itself.
func TestRuleForAWhile(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	text := "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nmemory: 4MiB\ntop_talkers: 64\ndrain: {delay: 0s}\nstate_file: " + state + "\nrules: [{name: r, key: ip, rate: 1/h, burst: 20, strict: true}, {name: other, key: ip, rate: 1000/s}]\n"
	file := writeFile(t, "c.yaml", text)
	p := serve(t, "-c", file)
	run := func(want string, args ...string) {
		t.Helper()
		code, stdout, stderr := command(t, nil, append(args, "--admin", p.admin)...)
		if got := fmt.Sprint(code, " ", stdout, strings.ReplaceAll(stderr, p.admin, "ADMIN")); !regexp.MustCompile(`^(?:` + want + `)$`).MatchString(got) {
			t.Errorf("%q: got\n%s\nwant\n%s", args, got, want)
		}
	}
	admits := func(n, want int) {
		t.Helper()
		if got := sent(t, p, "127.0.0.1", n); got != want {
			t.Errorf("%d of %d admitted, want %d", got, n, want)
		}
	}
	admits(30, 20)
	run(`0 r: shadow, 1/h burst 20 for 30m0s, then enforce, 1/h burst 20 again\n`, "rule", "r", "mode=shadow", "--for", "30m")
	admits(5, 5)
	run(`0 r: shadow, 1/h burst 100 for 1h0m0s, then enforce, 1/h burst 20 again\n`, "rule", "r", "burst=100")
	const table = `RULE   MODE     LIMIT              FILE                   ENDS IN  BY\n` +
		`r      shadow   1/h burst 100      enforce, 1/h burst 20  (1h0m0s|59m\d+s)   127\.0\.0\.1\n`
	const other = `other  enforce  1000/s burst 1000  -                      -        \n`
	run(`0 `+table+other, "rule")
	if _, info := get(t, http.DefaultClient, "http://"+p.admin+"/v1/info"); !regexp.MustCompile(`"burst": 100,[^}]*"mode": "shadow",[^}]*"live_seconds": 3[56]`).MatchString(info) {
		t.Error(info)
	}
	if _, top := get(t, http.DefaultClient, "http://"+p.admin+"/v1/top"); !regexp.MustCompile(`"rule":"r","mode":"shadow",[^}]*"live_for":3[56]`).MatchString(top) {
		t.Error(top)
	}
	if _, page := get(t, http.DefaultClient, "http://"+p.admin+"/?key=127.0.0.1"); !regexp.MustCompile(`(?s)None of 2 rules denies.*<td>1/h, burst 100</td>.*<td>(59m|1h00m) <button.*<td>live rule set</td>`).MatchString(page) {
		t.Error(page)
	}
	if got := metric(t, p, `fastlimit_live_rule_seconds{rule="r"}`); !regexp.MustCompile(`^3[56]\d\d`).MatchString(got) {
		t.Errorf("metrics: %s", got)
	}
	run(`(?s)0 127\.0\.0\.1 has used .* of the burst of rule r \(1/h, burst 100\).* An operator has changed the rule for another .*`, "explain", "r", "127.0.0.1")
	run(`(?s)0 .*127\.0\.0\.1 +live rule set +change=mode=shadow burst=100 for=1h0m0s rule=r until=.*`, "changes")

	run(`0 r: enforce, 1/h burst 100 for 2h0m0s, then enforce, 1/h burst 20 again\n`, "rule", "r", "mode=enforce", "--for", "2h")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "burst: 20", "burst: 30")), 0o600); err != nil {
		t.Fatal(err)
	}
	run(`0 reloaded\n`, "reload")
	run(`(?s)0 .*r      enforce  1/h burst 100 +enforce, 1/h burst 30 +(2h0m0s|1h59m\d+s) .*`, "rule")
	admits(100, 100-20) // in shadow mode nothing was charged

	p.terminate()
	p = serve(t, "-c", file)
	run(`(?s)0 .*r      enforce  1/h burst 100 +enforce, 1/h burst 30 +(2h0m0s|1h59m\d+s) +127\.0\.0\.1\n.*`, "rule")
	run(`(?s)0 127\.0\.0\.1 is over the limit of rule r \(1/h, burst 100\).*and one fits in (1h0m0s|59m\d+s)\. An operator .*`, "explain", "r", "127.0.0.1")

	run(`0 r: enforce, 1/h burst 500 for 1s, then enforce, 1/h burst 30 again\n`, "rule", "r", "burst=500", "--for", "1s")
	p.waitLog(`msg="live rule ended" cause="its time" rule=r was="mode=enforce burst=500"`)
	testkit.Eventually(t, "the file's rule", func() bool {
		_, stdout, _ := command(t, nil, "rule", "r", "--admin", p.admin)
		return strings.Contains(stdout, "r     enforce  1/h burst 30  -     -")
	})
	run(`0 r: enforce, 1/h burst 50 for .*\n`, "rule", "r", "burst=50")
	run(`0 r: enforce, 1/h burst 30, as in the file\n`, "rule", "r", "--undo")

	run(`1 fastlimit rule: ADMIN: rule r has not been changed: it is as in the file\n`, "rule", "r", "--undo")
	run(`1 fastlimit rule: ADMIN: no rule "x"; this node has r, other\n`, "rule", "x", "mode=shadow")
	run(`1 fastlimit rule: no rule "x"; ADMIN has r, other\n`, "rule", "x")
	run(`1 fastlimit rule: ADMIN: mode: off is not a mode; want enforce or shadow\n`, "rule", "r", "mode=off")
	run(`1 fastlimit rule: ADMIN: rate: .*\n`, "rule", "r", "rate=fast")
	run(`1 fastlimit rule: ADMIN: burst: .*\n`, "rule", "r", "burst=18446744073709551615")
	run(`1 fastlimit rule: ADMIN: for: 500ms is out of range; want 1s to 8784h0m0s\n`, "rule", "r", "burst=5", "--for", "500ms")
	run(`2 fastlimit: burst=x: want a whole number above 0, for example burst=200\n`, "rule", "r", "burst=x")
	run(`2 fastlimit: key=ip: want mode=shadow, mode=enforce, rate=N/s or burst=N\n`, "rule", "r", "key=ip")
	run(`2 fastlimit: rate=2/s: rate is given twice\n`, "rule", "r", "rate=1/s", "rate=2/s")
	run(`2 fastlimit: --for 1h0m0s: nothing to change; .*\n`, "rule", "r", "--for", "1h")
	run(`2 fastlimit: --undo: name a rule and nothing else, .*\n`, "rule", "--undo")
}

// Under load a rule is changed again and again, beside reloads, with lists in a file that change
// meanwhile: nobody within the limit is denied, no request is lost, and the lists are the last ones.
func TestRuleChangesUnderLoad(t *testing.T) {
	t.Parallel()
	list := writeFile(t, "deny.txt", "192.0.2.1\n")
	p := serve(t, "-c", writeFile(t, "c.yaml", "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nmemory: 4MiB\ndeny: [{file: "+list+"}]\nrules: [{name: r, key: ip, rate: 1000/s, burst: 1000}]\n"))
	stop := make(chan struct{})
	all, denied, done := steady(t, "127.0.0.4", []*process{p}, 2*time.Millisecond, stop)
	done.Go(func() {
		for range 20 {
			if code, _, errs := command(t, nil, "reload", "--admin", p.admin); code != 0 {
				t.Error(errs)
			}
		}
	})
	for i := range 40 {
		change := []string{"rule", "r", "rate=1000/s", fmt.Sprint("burst=", 1000+i)}
		if i%4 == 3 {
			change = []string{"rule", "r", "--undo"}
		}
		if i == 20 {
			if err := os.WriteFile(list, []byte("192.0.2.1\n127.0.0.5\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if code, _, errs := command(t, nil, append(change, "--admin", p.admin)...); code != 0 {
			t.Fatal(errs)
		}
	}
	denies := func() bool {
		resp, _ := get(t, clientFrom(t, "127.0.0.5"), "http://"+p.listen+"/")
		return resp.StatusCode == http.StatusForbidden
	}
	testkit.Eventually(t, "the list has been read again, by itself or a reload", denies)
	for range 3 {
		if code, _, errs := command(t, nil, "rule", "r", "burst=2000", "--admin", p.admin); code != 0 {
			t.Fatal(errs)
		}
		if !denies() {
			t.Error("a client on the deny list is served")
		}
	}
	close(stop)
	done.Wait()
	if all.Load() == 0 || denied.Load() > 0 {
		t.Errorf("%d of %d denied", denied.Load(), all.Load())
	}
}
