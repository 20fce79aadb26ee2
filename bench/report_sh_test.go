package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReportScriptRefuses before it builds or measures anything: without what it
// needs, and where its report cannot be written.
func TestReportScriptRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	needs := []string{"go", "nginx", "haproxy", "redis-server", "redis-cli"}
	tools := []string{"sh", "dirname", "date", "mkdir", "rm"}
	for _, tool := range tools {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, tool)); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(want string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "sh"), "report.sh")
		cmd.Env = []string{"PATH=" + dir, "SBIN=" + dir, "RESULTS=" + file + "/below"}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v, %s: want an error and %q", err, out, want)
		}
	}
	run("missing: " + strings.Join(needs, " ") + ";")
	for _, program := range needs {
		if err := os.Symlink("/bin/false", filepath.Join(dir, program)); err != nil {
			t.Fatal(err)
		}
	}
	run("cannot write to " + file)
}
