//go:build linux && netns

package nft

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/ban/feed"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// These tests run in a user and network namespace of their own: the test binary starts
// itself again in one.
const (
	insideEnv = "FASTLIMIT_NFT_INSIDE" // set within it
	roleEnv   = "FASTLIMIT_NFT_ROLE"   // set for a process that a test starts, and looks into
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(roleEnv) != "":
		os.Exit(play(os.Getenv(roleEnv)))
	case os.Getenv(insideEnv) == "":
		os.Exit(enter())
	}
	if err := loUp(); err != nil {
		fmt.Fprintln(os.Stderr, "lo:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// enter runs the tests in new namespaces, as their root.
func enter() int {
	cmd := self(insideEnv + "=1")
	cmd.Args = os.Args
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = namespaces(0)
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL: no user and network namespace to test in:", err)
		fmt.Fprintln(os.Stderr, "      allow it: sysctl user.max_user_namespaces=1000, kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0")
		return 1
	}
	return 0
}

// namespaces has a process begin in new ones, as the user of this number there.
func namespaces(user int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
}

// self is this test binary, to be started with these variables on top.
func self(env ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

func loUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// play is what a started process does: it opens a table with a ban in it, says how that
// went, and ends with its input or by SIGTERM. Roles are owner, ownless and nobody.
func play(role string) int {
	if role == "nobody" {
		if err := loUp(); err != nil {
			fmt.Println("lo:", err)
			return 1
		}
	}
	w, err := New(Config{Ports: []uint16{80}})
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
	c := &child{Cmd: self(roleEnv + "=" + role)}
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
	path, err := exec.LookPath("nft")
	if err != nil {
		path = "/usr/sbin/nft"
	}
	out, err := exec.Command(path, args...).CombinedOutput()
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
func addAddress(t *testing.T, a netip.Addr) {
	t.Helper()
	if a.Is4() {
		return
	}
	nl, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer nl.Close()
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	b := binary.NativeEndian.AppendUint32([]byte{unix.AF_INET6, 128, unix.IFA_F_NODAD, 0}, uint32(lo.Index))
	b, at := begin(b, unix.IFA_LOCAL)
	b = padded(append(b, a.AsSlice()...), at)
	_, err = nl.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_NEWADDR, Flags: netlink.Request | netlink.Acknowledge | netlink.Create},
		Data:   b,
	})
	if err != nil && !errors.Is(err, unix.EEXIST) {
		t.Fatal(err)
	}
}
