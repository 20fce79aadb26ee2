package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/bans"
	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/internal/liverules"
	"github.com/fastlimit/fastlimit/internal/overrides"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/server"
	"golang.org/x/sys/unix"
)

func init() { keepStateIn = keepState }

// keepState says on stdout what happens, a word on each line: "begun"; "admitted" for
// each request of an attacker; "denied" for one of a client within its limit; and "turn" when
// the attacker, and then everybody else, has had its turn for the first time.
func keepState(dir string) {
	say := func(word string) { _, _ = os.Stdout.WriteString(word + "\n") } // in one write
	say("begun")
	stateEvery = time.Millisecond
	path := filepath.Join(dir, "state")
	cfg, err := config.Parse("f.yaml", fmt.Appendf(nil, "state_file: %s\nmemory: 1MiB\nrules: [{name: r, key: ip, rate: 1000/s, burst: 20}, {name: slow, key: ip, rate: 1/h, burst: 20}]", path), nil)
	var s *state
	var l *fastlimit.Limiter
	if err == nil {
		s, err = openState(cfg, slog.New(slog.NewTextHandler(os.Stdout, nil)))
	}
	if err == nil {
		s.load(liverules.New(liverules.Config{Changing: new(sync.Mutex)}, cfg.Policy.Rules))
		l, err = s.newLimiter(cfg.Limiter())
	}
	if err != nil {
		say("failed: " + err.Error())
		return
	}
	s.show(new(server.Config))
	s.start(bans.New(bans.Config{}), overrides.New(overrides.Config{Policy: &cfg.Policy, Limiter: l}), func() {})
	mine, err := openConforming(filepath.Join(dir, "client"))
	if err != nil {
		say("failed: " + err.Error())
		return
	}
	fast, slow := l.Rules()[0], l.Rules()[1]
	attacker, client := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for i := uint32(0); ; i++ {
		for range 40 {
			if slow.Allow(slow.AddrKey(attacker)) {
				say("admitted")
			}
		}
		for range 3 { // a crowd, so that there is something to write
			a := netip.AddrFrom4([4]byte{10, 0, byte(i >> 8 & 7), byte(i)})
			fast.Allow(fast.AddrKey(a))
			slow.Take(context.Background(), slow.AddrKey(a), 15)
		}
		if mine.may() && !fast.Allow(fast.AddrKey(client)) {
			say("denied")
		}
		mine.done()
		if i == 5000 {
			say("turn")
		}
	}
}

// conforming is a client that keeps 1000/s with a burst of 20 by the machine's clock, across
// processes that are killed: what it has sent is in memory that outlives them.
type conforming struct{ busy *atomic.Int64 } // until when, in ns

func openConforming(path string) (*conforming, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(8); err != nil {
		return nil, err
	}
	b, err := unix.Mmap(int(f.Fd()), 0, 8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	c := &conforming{(*atomic.Int64)(unsafe.Pointer(&b[0]))}
	c.done() // what the process before was about to send is sent by now
	return c, nil
}

func boottime() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // never fails
	return ts.Nano()
}

const unit = int64(time.Millisecond)

// may reports whether a request fits, and notes that it is sent; done, that it was by now at
// the latest.
func (c *conforming) may() bool {
	if max(c.busy.Load()-boottime(), 0)+unit > 20*unit {
		return false
	}
	c.busy.Add(unit)
	return true
}

func (c *conforming) done() {
	if now := boottime(); c.busy.Load() < now+unit {
		c.busy.Store(now + unit)
	}
}

// TestKilledWhileWriting: 200 processes are killed at random instants, most of them while
// they write the file. Each next one goes on with a file that is whole, and never denies a client
// that keeps its limit; an attacker that is over its limit stays so.
func TestKilledWhileWriting(t *testing.T) {
	severalPrograms(t)
	t.Parallel()
	const lines = 4
	each := testkit.Size(12, 50)
	for i := range lines {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			dir, rng := t.TempDir(), rand.New(rand.NewPCG(uint64(i), 48))
			over, went, admitted := false, 0, 0
			for k := range each {
				from := [2]string{"begun", "continuing with"}[k%2]
				if k == 0 {
					from = "turn"
				}
				out := killed(t, dir, from, time.Duration(rng.Int64N(int64(60*time.Millisecond))))
				if strings.Contains(out, "ignored") || strings.Contains(out, "failed") || strings.Contains(out, "denied") {
					t.Fatalf("process %d:\n%s", k, out)
				}
				went += strings.Count(out, "continuing with")
				n := strings.Count(out, "admitted")
				if admitted += n; over && n > 1 {
					t.Errorf("process %d admits %d of an attacker that was over its limit", k, n)
				}
				over = over || strings.Contains(out, "continuing with") && n == 0 && strings.Contains(out, "turn")
			}
			if went < each/2 {
				t.Errorf("%d of %d processes went on with a file", went, each)
			}
			t.Logf("%d processes, %d of which went on with a file; the attacker was admitted %d times in all, and would be %d times without", each, went, admitted, each*30)
		})
	}
}

// killed runs a process, kills it so long after it has said from, and returns what it said.
func killed(t *testing.T, dir, from string, after time.Duration) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), stateEnv+"="+dir)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	kill := time.AfterFunc(hang, func() { _ = cmd.Process.Kill() })
	for s := bufio.NewScanner(stdout); s.Scan(); {
		out.WriteString(s.Text() + "\n")
		if strings.Contains(s.Text(), from) && (from != "turn" || waitFile(filepath.Join(dir, "state"))) {
			kill.Reset(after)
		}
	}
	_ = cmd.Wait() // it was killed
	if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !w.Signaled() {
		t.Fatalf("it ended by itself: %v\n%s", cmd.ProcessState, out.String())
	}
	return out.String()
}

// waitFile waits for the first file.
func waitFile(path string) bool {
	for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return true
		}
	}
	return false
}
