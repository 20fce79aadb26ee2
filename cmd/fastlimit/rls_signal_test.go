package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// TestRLSHangupNeverWaits: the goroutine that gets signals is not held up by files.
func TestRLSHangupNeverWaits(t *testing.T) {
	t.Parallel()
	n := &rlsNode{hangups: make(chan struct{}, 1)} // nobody reads the files
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 10 {
			n.hangup()
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Until(testkit.Deadline(t))):
		t.Error("a burst of signals waits for the files")
	}
}

// TestRLSSocket: the socket of a process that was killed is replaced, one in use is not.
func TestRLSSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	start := func() *process {
		cmd := exec.Command(binary, "rls")
		cmd.Env = []string{"PORT=0", "DEBUG_PORT=0", "GRPC_UDS=" + path, "REDIS_URL=none", "FASTLIMIT_CLIENTS=64"}
		return launch(t, cmd)
	}
	killed := start()
	killed.waitLog("fastlimit rls is serving")
	killed.signal(syscall.SIGKILL)
	killed.wait()
	second := start()
	second.waitLog("fastlimit rls is serving")
	if line := start().waitLog("rls"); !strings.Contains(line, "another process listens there") {
		t.Errorf("two processes on one socket: %s", line)
	}
	second.signal(syscall.SIGTERM)
	second.wait()
}
