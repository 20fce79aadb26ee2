//go:build linux && netns

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestDiskFull: on a file system that is full the node goes on, says so once, and keeps the
// last good file; when there is room again, it writes again.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := stateConfig(t, filepath.Join(dir, "state"))
	script := `mount -t tmpfs -o size=128k none "$0" && exec "$@"`
	p := start(t, exec.Command("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, dir,
		binary, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "-c", file))
	inside := fmt.Sprintf("/proc/%d/root%s/", p.cmd.Process.Pid, dir) // the shell has become the node
	wait := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(2 * hang); !ok(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: does not come", what)
			}
		}
	}
	sent(t, p, "127.0.0.1", 40)
	var good []byte
	wait("the first file", func() (ok bool) {
		good, _ = os.ReadFile(inside + "state")
		return len(good) > 0
	})
	filler, err := os.Create(inside + "filler")
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	filler.Close()
	wait("a failure", func() bool { return metric(t, p, `fastlimit_state_errors_total{class="full"}`) != "0" })
	if now, err := os.ReadFile(inside + "state"); err != nil || !bytes.Equal(now, good) {
		t.Errorf("the last good file has %d bytes, and %d now, %v", len(good), len(now), err)
	}
	if resp, _ := get(t, clientFrom(t, "127.0.0.2"), "http://"+p.listen+"/"); resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
	if err := os.Remove(inside + "filler"); err != nil {
		t.Fatal(err)
	}
	p.terminate()
	p.mu.Lock()
	defer p.mu.Unlock()
	if log := p.log.String(); strings.Count(log, "state file not written") != 1 || strings.Count(log, "state file written again") != 1 || !strings.Contains(log, "class=full") {
		t.Error("not said once:", log)
	}
}
