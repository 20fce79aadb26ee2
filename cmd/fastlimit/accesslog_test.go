package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// The access log is written, follows a rotation by rename and SIGHUP, and is whole at the end.
func TestAccessLog(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "access.log")
	p := serve(t, "-c", writeFile(t, "c.yaml", fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\naccess_log: {file: %s}\nrules: [{name: r, rate: 100/s}]\n", name)))
	get(t, http.DefaultClient, "http://"+p.listen+"/before")
	if err := os.Rename(name, name+".1"); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	redistest.Eventually(t, "the new file", func() bool { _, err := os.Stat(name); return err == nil })
	get(t, http.DefaultClient, "http://"+p.listen+"/after")
	if n := p.metric(t, "fastlimit_access_log_dropped_total"); n != 0 {
		t.Errorf("%v lines dropped", n)
	}
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for file, path := range map[string]string{name + ".1": "/before", name: "/after"} {
		if text := readText(t, file); strings.Count(text, "\n") != 1 || !strings.Contains(text, `"path":"`+path+`","status":200,`) {
			t.Errorf("%s: %s", file, text)
		}
	}
	code, out, errs := command(t, nil, "replay", "--rate", "1/h", "--burst", "1", "-o", "json", name+".1", name)
	if code != 0 || !strings.Contains(out, `"requests":2,"skipped":0,"allowed":1,"denied":1`) {
		t.Errorf("replay: %d: %s%s", code, out, errs)
	}
}
