package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// Wait tells how a child ended, and ends it if nobody wants to wait any longer.
func TestWait(t *testing.T) {
	t.Parallel()
	failed, err := start(t, "fail", Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := failed.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "no such setting") {
		t.Errorf("a child that failed: %v", err)
	}
	asleep, err := start(t, "sleep", Config{})
	if err != nil {
		t.Fatal(err)
	}
	if pids := asleep.PIDs(); len(pids) == 0 || pids[0] != asleep.PID() {
		t.Errorf("processes %v, child %d", pids, asleep.PID())
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if err := asleep.Wait(ctx); !errors.Is(err, enough) {
		t.Errorf("given up: %v", err)
	}
	if err := asleep.Wait(t.Context()); err == nil {
		t.Error("a child that was stopped has ended well")
	}
}

// A process that is halted does not run until it may go on.
func TestHalt(t *testing.T) {
	t.Parallel()
	asleep, err := start(t, "sleep", Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, stop := range []bool{true, false} {
		if err := Halt(asleep.PID(), stop); err != nil {
			t.Fatal(err)
		}
		halted := func() bool {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", asleep.PID()))
			if err != nil {
				t.Fatal(err)
			}
			return strings.Contains(string(status), "(stopped)")
		}
		testkit.Eventually(t, fmt.Sprint("halted: ", stop), func() bool { return halted() == stop })
	}
	asleep.Stop()
	if err := Halt(asleep.PID(), false); err == nil {
		t.Error("a process that has ended goes on")
	}
}

// Cost counts what this process and the child use meanwhile, and only that.
func TestCost(t *testing.T) {
	asleep, err := start(t, "sleep", Config{})
	if err != nil {
		t.Fatal(err)
	}
	const spent = 50 * time.Millisecond
	took, self, child, err := asleep.Cost(func() error {
		from, err := SelfCPU()
		for now := from; err == nil && now-from < spent; {
			now, err = SelfCPU()
		}
		return err
	})
	if err != nil || self < spent || took < spent/2 || child > self {
		t.Errorf("took %v, this process %v, the child %v; %v", took, self, child, err)
	}
	failure := errors.New("failed")
	if _, _, _, err := asleep.Cost(func() error { return failure }); !errors.Is(err, failure) {
		t.Errorf("%v", err)
	}
}

// What the system says of this process and machine is plausible.
func TestOfTheSystem(t *testing.T) {
	rss, err := SelfRSS()
	if err != nil || rss < 1<<20 {
		t.Errorf("%d bytes resident: %v", rss, err)
	}
	if spare, err := AvailableBytes(); err != nil || spare <= 0 {
		t.Errorf("%d bytes available: %v", spare, err)
	}
	b, err := os.ReadFile("/proc/sys/kernel/sched_autogroup_enabled")
	if want := err == nil && strings.TrimSpace(string(b)) == "1"; Autogroups() != want {
		t.Errorf("autogroups: %v", Autogroups())
	}
	cores, err := Cores()
	if err != nil {
		t.Fatal(err)
	}
	if err := PinSelf(cores); err != nil { // to where it may run anyway
		t.Error(err)
	}
	if err := PinSelf([]int{1 << 9}); err == nil {
		t.Error("pinned to a core that is not there")
	}
}
