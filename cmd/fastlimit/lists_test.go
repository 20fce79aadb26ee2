package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// Lists are read from files, again on SIGHUP and when they change; a file with a mistake
// changes nothing, and is shown, counted and logged with its place. Live overrides stay.
func TestListFiles(t *testing.T) {
	t.Parallel()
	deny, allow := writeFile(t, "deny.txt", "# nobody yet\n203.0.113.0/24\n"), writeFile(t, "allow.txt", "")
	file := writeFile(t, "c.yaml", fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nallow: {file: %s}\ndeny: [192.0.2.0/24, {file: %s}]\nrules: [{name: r, rate: 1/h, burst: 2}]\n", allow, deny))
	p := serve(t, "-c", file)
	from := func(addr string) int {
		resp, _ := get(t, clientFrom(t, addr), "http://"+p.listen+"/")
		return resp.StatusCode
	}
	replace := func(path, text string) {
		t.Helper()
		if err := os.Rename(writeFile(t, "new", text), path); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []int{200, 200, 429} {
		if got := from("127.0.0.2"); got != want {
			t.Errorf("request %d: %d, want %d", i, got, want)
		}
	}
	p.override(t, "set", "r", "127.0.0.5", "unlimited")

	replace(allow, "127.0.0.2\n")
	p.signal(syscall.SIGHUP)
	p.waitLog("the list file was read again")
	p.waitLog("msg=reloaded") // which reads the other list as well
	if got := from("127.0.0.2"); got != 200 {
		t.Errorf("who stood denied and is allowed now: %d", got)
	}
	replace(deny, "127.0.0.3\n127.0.0.5 # though unlimited\n") // without a signal
	p.waitLog("the list file was read again")
	for addr, want := range map[string]int{"127.0.0.3": 403, "127.0.0.5": 403, "127.0.0.2": 200} {
		if got := from(addr); got != want {
			t.Errorf("%s: %d, want %d", addr, got, want)
		}
	}

	replace(deny, "127.0.0.4\n127.0.0.300\n")
	p.waitLog(deny + `:2:1: \"127.0.0.300\" is neither an address nor a prefix`)
	for addr, want := range map[string]int{"127.0.0.3": 403, "127.0.0.4": 200} {
		if got := from(addr); got != want {
			t.Errorf("beside a mistake %s: %d, want %d", addr, got, want)
		}
	}
	for name, want := range map[string]float64{"entries": 2, "failing": 1, "errors_total": 1} {
		if n := p.metric(t, fmt.Sprintf(`fastlimit_list_file_%s{file=%q,list="deny"}`, name, deny)); n != want {
			t.Errorf("%s: %v, want %v", name, n, want)
		}
	}
	if _, info := get(t, http.DefaultClient, "http://"+p.admin+"/v1/info"); !strings.Contains(info, `"error": "`+deny+`:2:1: `) {
		t.Error(info)
	}
	replace(deny, "")
	redistest.Eventually(t, "the end of the list", func() bool { return from("127.0.0.5") == 200 })
	if p.live(t)["r 127.0.0.5"] == "" {
		t.Error("the live override is gone")
	}
	if code, _, errs := command(t, nil, "validate", "-c", file); code != 0 {
		t.Error(errs)
	}
	replace(allow, "x\n")
	if code, _, errs := command(t, nil, "validate", "-c", file); code != 1 || !strings.Contains(errs, allow+`:1:1: allow.file: "x" is neither an address nor a prefix; write`) {
		t.Errorf("%d: %s", code, errs)
	}
}

// Replay judges by the entries of files too.
func TestReplayUsesListFiles(t *testing.T) {
	t.Parallel()
	deny := writeFile(t, "deny.txt", "192.0.2.0/24\n")
	file := writeFile(t, "c.yaml", fmt.Sprintf("deny: {file: %s}\nrules: [{name: r, rate: 1/h}]\n", deny))
	log := writeFile(t, "log", `192.0.2.7 - - [23/Nov/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "-"`+"\n")
	if code, out, errs := command(t, nil, "replay", "-c", file, "-o", "json", log); code != 0 || !strings.Contains(out, `"denied":1`) {
		t.Errorf("%d: %s%s", code, out, errs)
	}
}
