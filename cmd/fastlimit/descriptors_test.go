package main

import (
	"os/exec"
	"strings"
	"testing"
)

// A limit of open files that a flood of connections would meet is told of at
// the start, with the number to set; one that is high enough is not.
func TestLowDescriptorLimit(t *testing.T) {
	t.Parallel()
	const warning = "the limit of open files is below the connections"
	run := func(limit string) string {
		p := start(t, exec.Command("sh", "-c", "ulimit -n "+limit+`; exec "$0" serve --listen 127.0.0.1:0 --admin 127.0.0.1:0`, binary))
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.log.String()
	}
	if log := run("512"); !strings.Contains(log, warning) || !strings.Contains(log, "limit=512 connections=16384 want=16512") {
		t.Errorf("512 files: %s", log)
	}
	if log := run("16512"); strings.Contains(log, warning) {
		t.Errorf("16512 files: %s", log)
	}
}
