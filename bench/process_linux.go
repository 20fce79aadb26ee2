package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/fastlimit/fastlimit/bench/proc"
	"golang.org/x/sys/unix"
)

// residentBytes is the resident memory of this process.
func residentBytes() (int64, error) {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	if fields := bytes.Fields(b); len(fields) > 1 {
		pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
		return pages * int64(os.Getpagesize()), err
	}
	return 0, fmt.Errorf("bench: /proc/self/statm is %q", b)
}

// availableBytes is the memory that can be had without swapping: of the machine,
// or of the control group, where that has less.
func availableBytes() (int64, error) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	_, text, ok := bytes.Cut(b, []byte("\nMemAvailable:"))
	fields := bytes.Fields(text)
	if !ok || len(fields) == 0 {
		return 0, errors.New("bench: /proc/meminfo has no MemAvailable")
	}
	kib, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("bench: MemAvailable in /proc/meminfo: %w", err)
	}
	spare := kib << 10
	if b, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if most, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64); err == nil { // else "max"
			spare = min(spare, most)
		}
	}
	return spare, nil
}

// settle waits until this process no longer works in the background, so that
// the garbage of one limiter is not collected at the expense of the next.
func settle() {
	const step, idle, patience = 2 * time.Millisecond, 200 * time.Microsecond, time.Second
	for waited := time.Duration(0); waited < patience; waited += step {
		before := cpuTime()
		time.Sleep(step)
		if cpuTime()-before < idle {
			return
		}
	}
}

// pinThread keeps the calling thread on one of the cores of this process.
func pinThread(core int) error {
	cores, err := proc.Cores()
	if err != nil {
		return err
	}
	var set unix.CPUSet
	set.Set(cores[core%len(cores)])
	return unix.SchedSetaffinity(0, &set)
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
