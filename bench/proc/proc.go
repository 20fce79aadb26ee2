// Package proc starts the servers that are measured and reads their CPU time and
// resident memory, as the kernel counts them.
//
// A child is pinned to its cores before its first instruction, so that a
// runtime that sizes itself by the cores it may use (Go, nginx "auto") sees
// them, and it dies with its parent. CPU time is that of the whole process,
// threads that have ended included, in nanoseconds: ticks of 10 ms would hide
// what a run of a second costs.
//
// Linux only: elsewhere every function returns an error.
package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Config describes a child process.
type Config struct {
	Path string
	Args []string
	Dir  string
	// Cores are the CPUs it may run on. Empty means all.
	Cores []int
	// Addr is a TCP address that it listens on once it is ready. Empty means
	// that it is not waited for.
	Addr string
	// Wait bounds the time until Addr answers. 0 means 5 s.
	Wait time.Duration
	// Stdout takes what it prints. nil keeps the end of that with the end of its
	// errors, for [Child.Output].
	Stdout io.Writer
}

// Child is a running process. Its methods are safe for concurrent use.
type Child struct {
	cmd    *exec.Cmd
	output tail
	exited chan struct{}
	err    error // of its end; valid once exited is closed
	stop   sync.Once
}

// Start runs the program and waits until it listens. Its error holds what the
// program printed last.
func Start(ctx context.Context, c Config) (*Child, error) {
	if c.Addr != "" && taken(c.Addr) {
		// It would be measured instead.
		return nil, fmt.Errorf("bench: %s is taken by another server: stop it or choose another port", c.Addr)
	}
	child := &Child{cmd: exec.Command(c.Path, c.Args...), exited: make(chan struct{})}
	child.cmd.Dir = c.Dir
	child.cmd.Stdout, child.cmd.Stderr = &child.output, &child.output
	if c.Stdout != nil {
		child.cmd.Stdout = c.Stdout
	}
	if err := startPinned(child.cmd, c.Cores); err != nil {
		return nil, fmt.Errorf("bench: start %s: %w", c.Path, err)
	}
	go func() {
		child.err = child.cmd.Wait()
		close(child.exited)
	}()
	if c.Addr == "" {
		return child, nil
	}
	wait := c.Wait
	if wait == 0 {
		wait = 5 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if err := child.Await(ctx, c.Addr); err != nil {
		child.Stop()
		return nil, fmt.Errorf("bench: %s: %w; it printed: %s", c.Path, err, child.Output())
	}
	return child, nil
}

// taken reports whether a server listens at the address. It asks again, since a process
// that this one is just starting has a copy of all its sockets until it runs its program:
// so the listener of FreeAddr may outlive its Close for a moment.
func taken(addr string) bool {
	for range 10 {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return false
		}
		conn.Close()
		time.Sleep(20 * time.Millisecond)
	}
	return true
}

// Await returns once the address accepts a connection, or the child or ctx has ended.
// A child that listens on several addresses has bound the first a moment before the
// others.
func (c *Child) Await(ctx context.Context, addr string) error {
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-c.exited:
			return errors.New("ended before it listened on " + addr)
		case <-ctx.Done():
			return fmt.Errorf("does not listen on %s: %w", addr, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Wait returns when the child has ended by itself, or stops it when ctx ends. Its
// error holds what the child printed last.
func (c *Child) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		c.Stop()
		return context.Cause(ctx)
	case <-c.exited:
	}
	if c.err != nil {
		return fmt.Errorf("bench: %s: %w; it printed: %s", c.cmd.Path, c.err, c.Output())
	}
	return nil
}

// PID is the child's process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// PIDs are its process and those that it has started.
func (c *Child) PIDs() []int { return family(c.PID()) }

// family is a process and all that it has started, which may be gone when they are
// looked at.
func family(pid int) []int {
	all := []int{pid}
	for _, child := range children(pid) {
		all = append(all, family(child)...)
	}
	return all
}

// CPU is the CPU time used so far, user and system, of all threads of the child
// and of its own children (nginx works in one).
func (c *Child) CPU() (time.Duration, error) { return CPU(c.PID()) }

// CPU is that of any process, and of its children.
func CPU(pid int) (time.Duration, error) { return sum(pid, cpu) }

// SelfCPU is the CPU time of this process so far, user and system.
func SelfCPU() (time.Duration, error) { return selfCPU() }

// SelfRSS is the resident memory of this process in bytes.
func SelfRSS() (int64, error) { return rss(os.Getpid()) }

// Cost runs f and returns how long it took and the CPU time that this process and
// the child used meanwhile.
func (c *Child) Cost(f func() error) (took, self, child time.Duration, err error) {
	return Cost(c.PID(), f)
}

// Cost is that of any process, and of its children.
func Cost(pid int, f func() error) (took, self, child time.Duration, err error) {
	self, err1 := selfCPU()
	child, err2 := CPU(pid)
	start := time.Now()
	if err := errors.Join(err1, err2, f()); err != nil {
		return 0, 0, 0, err
	}
	took = time.Since(start)
	selfAfter, err1 := selfCPU()
	childAfter, err2 := CPU(pid)
	return took, selfAfter - self, childAfter - child, errors.Join(err1, err2)
}

// RSS is the resident memory in bytes of the child and of its own children.
// Pages they share are counted for each.
func (c *Child) RSS() (int64, error) { return sum(c.PID(), rss) }

// sum adds up a figure of a process and of its children.
func sum[T ~int64](pid int, of func(pid int) (T, error)) (total T, err error) {
	for _, p := range family(pid) {
		n, err := of(p)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// Output is the end of what the child printed, at most 4 KiB.
func (c *Child) Output() string { return c.output.String() }

// Stop asks the child to end, kills it after 2 s and waits for it. Calls after
// the first do nothing.
func (c *Child) Stop() {
	c.stop.Do(func() {
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-c.exited:
		case <-time.After(2 * time.Second):
			_ = c.cmd.Process.Kill()
			<-c.exited
		}
	})
}

// FreeAddr is a loopback address whose port was free a moment ago.
func FreeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailBytes = 4 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailBytes; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

// String is the text without blanks around it.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}
