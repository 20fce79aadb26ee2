package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// startPinned starts the command on the given cores. A child inherits the
// affinity of the thread that forks it, so that the pin holds from its first
// instruction; and the signal of the death of that thread, which is why the
// thread is never given back.
func startPinned(cmd *exec.Cmd, cores []int) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	result := make(chan error)
	forks() <- func() { result <- pinned(cores, cmd.Start) }
	return <-result
}

// forks is the thread that starts all children. Pdeathsig fires when the
// thread that forked ends, not the process.
var forks = sync.OnceValue(func() chan<- func() {
	todo := make(chan func())
	go func() {
		runtime.LockOSThread()
		for do := range todo {
			do()
		}
	}()
	return todo
})

// pinned calls f with this thread on the given cores.
func pinned(cores []int, f func() error) error {
	if len(cores) == 0 {
		return f()
	}
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("read the cores of this process: %w", err)
	}
	if err := pin(cores); err != nil {
		return err
	}
	err := f()
	return errors.Join(err, unix.SchedSetaffinity(0, &before))
}

func cpuSet(cores []int) (set unix.CPUSet) {
	for _, c := range cores {
		set.Set(c)
	}
	return set
}

func pin(cores []int) error {
	set := cpuSet(cores)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin to cores %v: %w; this machine may have fewer, or the container may forbid it", cores, err)
	}
	return nil
}

// PinSelf moves every thread of this process to the given cores. Threads that
// start later inherit them.
func PinSelf(cores []int) error {
	set := cpuSet(cores)
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range tasks {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("pin to cores %v: %w", cores, err)
		}
	}
	return nil
}

// Cores are the CPUs that this process may use.
func Cores() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}
	var cores []int
	for c := range len(set) * strconv.IntSize {
		if set.IsSet(c) {
			cores = append(cores, c)
		}
	}
	return cores, nil
}

// PinThread keeps the calling thread on one of the cores of this process, by
// index.
func PinThread(core int) error {
	cores, err := Cores()
	if err != nil {
		return err
	}
	return pin([]int{cores[core%len(cores)]})
}

// cpu reads the CPU clock of another process; see clock_getcpuclockid(3). It is
// exact to the nanosecond at any moment, which /proc/PID/schedstat is only at
// a scheduler tick, and it counts threads that have ended.
func cpu(pid int) (time.Duration, error) {
	const clockOfProcess = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|clockOfProcess, &ts); err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

func selfCPU() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// Halt stops a process and its children, or lets them go on.
func Halt(pid int, stop bool) (err error) {
	signal := unix.SIGCONT
	if stop {
		signal = unix.SIGSTOP
	}
	for _, p := range family(pid) {
		err = errors.Join(err, os.NewSyscallError("kill", unix.Kill(p, signal)))
	}
	return err
}

// children are the processes that a process started, itself or its threads.
func children(pid int) (all []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, name := range lists {
		list, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		for f := range bytes.FieldsSeq(list) {
			if child, err := strconv.Atoi(string(f)); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

func rss(pid int) (int64, error) {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(statm), &size, &pages); err != nil {
		return 0, fmt.Errorf("/proc/%d/statm: %q: want a second number: %w", pid, statm, err)
	}
	return pages * int64(os.Getpagesize()), nil
}

// AvailableBytes is the memory that can be had without swapping: of the machine,
// or of the control group, where that has less.
func AvailableBytes() (int64, error) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	_, text, _ := bytes.Cut(b, []byte("\nMemAvailable:"))
	var kib int64
	if _, err := fmt.Sscan(string(text), &kib); err != nil {
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

// Autogroups reports whether the scheduler shares cores out among sessions before it
// looks at niceness: then nice does not keep the programs of another session off.
func Autogroups() bool {
	b, err := os.ReadFile("/proc/sys/kernel/sched_autogroup_enabled")
	return err == nil && string(bytes.TrimSpace(b)) == "1"
}
