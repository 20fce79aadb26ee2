//go:build linux && netns

package nft

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/ban/feed"
	"github.com/fastlimit/fastlimit/internal/testkit/netns"
	"golang.org/x/sys/unix"
)

// roleEnv is set for a process that a test starts, and looks into.
const roleEnv = "FASTLIMIT_NFT_ROLE"

// TestMain runs the tests in a user and network namespace of their own.
func TestMain(m *testing.M) {
	switch role := os.Getenv(roleEnv); {
	case role != "":
		os.Exit(play(role))
	case !netns.Inside():
		os.Exit(enter())
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "ip link set lo up: %v %s\n", err, out)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// enter runs this program again in new namespaces.
func enter() int {
	runtime.LockOSThread() // it dies with the thread
	cmd, err := netns.Again(os.Args[1:]...)
	if err == nil {
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		err = cmd.Run()
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "FAIL: user namespaces are refused here: %v; see package netns for what to allow\n", err)
		return 1
	}
	return 0
}

// user has a process begin in a user namespace of its own, and others if so asked, as the user of this number there.
func user(number int, others uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | others,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: number, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: number, HostID: os.Getgid(), Size: 1}},
	}
}

// play is what a started process does: it opens a table with a ban in it, says how that
// went, and ends with its input or by SIGTERM. Roles are owner and ownless.
func play(role string) int {
	w, err := New(Config{Listens: ports(80)})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	w.ownless = role == "ownless"
	f, err := feed.Open(feed.Config{Writer: w})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	f.Add(netip.MustParsePrefix("192.0.2.1/32"), time.Hour)
	for f.Stats().Pending > 0 {
		time.Sleep(time.Millisecond)
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		term <- syscall.SIGTERM
	}()
	fmt.Println("ready as", os.Getuid())
	<-term
	if err := f.Close(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// child is a started process.
type child struct {
	*exec.Cmd
	said  string // its first line
	input io.WriteCloser
}

func start(t *testing.T, role string, attr *syscall.SysProcAttr) *child {
	t.Helper()
	c := &child{Cmd: exec.Command("/proc/self/exe")}
	c.Env = append(c.Environ(), roleEnv+"="+role)
	c.SysProcAttr, c.Stderr = attr, os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if c.input, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	if c.said, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err, c.said)
	}
	c.said = strings.TrimSpace(c.said)
	return c
}

// tool runs the program nft and returns what it printed.
func tool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	nft, err := exec.LookPath("nft")
	if err != nil {
		nft = "/usr/sbin/nft" // where Debian keeps it, which only root has in PATH
	}
	out, err := exec.Command(nft, args...).CombinedOutput()
	return string(out), err
}

func mustTool(t *testing.T, args ...string) string {
	t.Helper()
	out, err := tool(t, args...)
	if err != nil {
		t.Fatal(err, out)
	}
	return out
}

// addAddress gives lo an address; those of IPv4 it has.
func addAddress(t *testing.T, a string) {
	t.Helper()
	if strings.Contains(a, ".") {
		return
	}
	if out, err := exec.Command("ip", "addr", "replace", a+"/128", "dev", "lo", "nodad").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
