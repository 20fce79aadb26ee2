//go:build linux

package netns

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"golang.org/x/sys/unix"
)

// apartEnv tells a test binary that it is one of [Load.Apart].
const apartEnv = "FASTLIMIT_NETNS_APART"

// Apart is a load that a process of its own sends, on the last processor: whoever sends
// thousands of requests a second would delay those whose time this process takes. It is
// safe for concurrent use.
type Apart struct {
	Load
	t testkit.T

	mu      sync.Mutex
	cmd     *exec.Cmd
	ask     io.WriteCloser
	replies *json.Decoder
	last    Counts
	ended   bool
}

// Apart begins to send. The test binary has to call [SendApart] in its TestMain. The load
// ends with Stop, or with the test.
func (l Load) Apart(t testkit.T) *Apart {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("taskset", "--cpu-list", strconv.Itoa(lastCPU(t)), self)
	cmd.Env = append(cmd.Environ(), apartEnv+"=1")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt is for who waits for it
	a := &Apart{Load: l, t: t, cmd: cmd}
	if a.ask, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	replies, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	a.replies = json.NewDecoder(replies)
	if err := cmd.Start(); err != nil {
		t.Fatalf("netns: %v", err)
	}
	t.Cleanup(func() { a.Stop() })
	if err := json.NewEncoder(a.ask).Encode(l); err != nil {
		t.Fatalf("netns: the load's process: %v", err)
	}
	return a
}

// lastCPU is the last processor that this process may use.
func lastCPU(t testkit.T) (last int) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatalf("netns: %v", err)
	}
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			last = i
		}
	}
	return last
}

// Counts are those so far, without times.
func (a *Apart) Counts() Counts {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return a.last
	}
	if _, err := io.WriteString(a.ask, "\n"); err != nil {
		a.t.Fatalf("netns: the load's process: %v", err)
	}
	if err := a.replies.Decode(&a.last); err != nil {
		a.t.Fatalf("netns: the load's process: %v", err)
	}
	return a.last
}

// Stop ends the load and returns what has become of it.
func (a *Apart) Stop() Counts {
	a.t.Helper()
	c := a.Counts()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended {
		a.ended = true
		a.ask.Close()
		if err := a.cmd.Wait(); err != nil {
			a.t.Fatalf("netns: the load's process: %v", err)
		}
	}
	return c
}

// SendApart reports whether this process was one of [Load.Apart], and returns when that has
// ended.
func SendApart() bool {
	if os.Getenv(apartEnv) == "" {
		return false
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	if !in.Scan() {
		return true
	}
	var l Load
	if err := json.Unmarshal(in.Bytes(), &l); err != nil {
		panic("BUG: netns: " + err.Error())
	}
	r := l.Start()
	defer r.Stop()
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		if out.Encode(r.Counts()) != nil {
			break
		}
	}
	return true
}
