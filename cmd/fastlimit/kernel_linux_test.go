package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

const kernelFile = `
listen: 127.0.0.1:0
admin: 127.0.0.1:0
kernel: {table: fastlimit_test, max_bans: 1000, mode: shadow}
rules:
  - {name: per-ip, key: ip, rate: 1/h, burst: 1, strict: true, ban: {after: 2, for: 1h}}
`

// In shadow mode serve needs no rights and drops nothing. It says that the kernel is on, and
// whom it would not have given to it.
func TestServeWithKernelInShadow(t *testing.T) {
	t.Parallel()
	p := serve(t, "-c", writeFile(t, "f.yaml", kernelFile))
	p.mu.Lock()
	log := p.log.String()
	p.mu.Unlock()
	for _, want := range []string{`kernel.table="inet fastlimit_test"`, "kernel.mode=shadow", "kernel.max_bans=1000"} {
		if !strings.Contains(log, want) {
			t.Errorf("%s is not in the start line of\n%s", want, log)
		}
	}
	client, url := clientFrom(t, "127.0.0.5"), "http://"+p.listen+"/"
	for i := range 10 {
		if resp, _ := get(t, client, url); i > 0 && resp.StatusCode != http.StatusTooManyRequests {
			t.Fatalf("request %d: status %d", i, resp.StatusCode)
		}
	}
	_, body := get(t, http.DefaultClient, "http://"+p.admin+"/v1/info")
	var info struct {
		Kernel struct {
			Table, Mode string
			Up          bool
			Bans        int
		}
	}
	if err := json.Unmarshal([]byte(body), &info); err != nil {
		t.Fatal(err)
	}
	if k := info.Kernel; k.Table != "fastlimit_test" || k.Mode != "shadow" || k.Up || k.Bans != 0 {
		t.Errorf("%+v", k)
	}
	_, metrics := get(t, http.DefaultClient, "http://"+p.admin+"/metrics")
	if m := regexp.MustCompile(`fastlimit_kernel_refused_total{reason="loopback"} ([0-9]+)`).FindStringSubmatch(metrics); m == nil || m[1] == "0" {
		t.Errorf("%q", m)
	}
	code, list, errs := command(t, nil, "bans", "--admin", p.admin)
	if code != 0 || !strings.Contains(list, "127.0.0.5") {
		t.Errorf("%d %s %s", code, list, errs)
	}
	if code, _, errs := command(t, nil, "unban", "127.0.0.5", "--admin", p.admin); code != 0 {
		t.Errorf("%d %s", code, errs)
	}
}

// Without the right to change packet filters serve ends before it answers anybody, and
// says what to grant.
func TestServeWithoutTheRightToDrop(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "f.yaml", strings.Replace(kernelFile, ", mode: shadow", "", 1))
	cmd := exec.CommandContext(t.Context(), binary, "serve", "-c", file)
	withoutRights(cmd)
	cmd.WaitDelay = time.Second
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%v", err)
	}
	if log := errs.String(); !strings.Contains(log, "CAP_NET_ADMIN") || strings.Contains(log, "is serving") {
		t.Error(log)
	}
}

// withoutRights takes those of root from a command: in a user namespace of its own they do not
// reach the network outside.
func withoutRights(cmd *exec.Cmd) {
	if os.Geteuid() != 0 {
		return // it has none
	}
	self := []syscall.SysProcIDMap{{Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: self, GidMappings: self}
}
