//go:build linux

// Package netns has tests talk to servers over a network of their own, in which there
// are thousands of clients, and whose packet filter is theirs. It needs no root: the
// program runs itself again in a user namespace ([Run], [Again]), where it may do what
// root may, to networks that it has made.
//
//	clients: the test itself                servers: what World.Command runs
//	10.0.0.2, fd00::2            ◄──veth──► 10.0.0.1, fd00::1
//	10.128.0.0/9, fd80::/16, 64:ff9b::/96
//
// All addresses of the last line are the clients', without being configured one by one:
// [Sources] picks some, [Load] connects from them. Clients are also the gateway of
// the servers.
//
// A kernel that refuses user namespaces fails the test. The tests that use them have
// the build tag "netns", which "make test" sets. They need ip, of iproute2, and nsenter,
// setpriv and taskset, of util-linux.
package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"golang.org/x/sys/unix"
)

// insideEnv tells a program that it is in namespaces that it has made.
const insideEnv = "FASTLIMIT_NETNS"

// Inside reports whether this process has been started by [Again].
func Inside() bool {
	return os.Getenv(insideEnv) != ""
}

// Again is this program with other arguments, as root of a new user namespace and in a
// new network namespace. It dies with the thread that starts it.
func Again(args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(cmd.Environ(), insideEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	return cmd, nil
}

// refused says what to do where a process of [Again] cannot be started.
const refused = "user namespaces are refused here: %v; allow them (sysctl user.max_user_namespaces, " +
	"kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns; in a container its seccomp profile), or leave out the build tag netns"

// T is what [Run] needs of a *testing.T.
type T interface {
	testkit.T
	Name() string
	Logf(format string, args ...any)
}

// Run runs a test in new namespaces: in the test binary's first process it runs that
// again, for this test alone, and takes over its result; there it calls f.
func Run(t T, f func()) {
	t.Helper()
	if Inside() {
		f()
		return
	}
	cmd, err := Again("-test.run=^"+regexp.QuoteMeta(t.Name())+"$", "-test.v", "-test.timeout="+time.Duration(testkit.Size(int64(2*time.Minute), int64(20*time.Minute))).String())
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	runtime.LockOSThread() // it dies with the thread
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		t.Fatalf(refused, err)
	}
	err = cmd.Wait()
	text := out.String()
	t.Logf("in namespaces:\n%s", text[:min(len(text), 20_000)]) // one that hangs shows all goroutines
	if err != nil || !strings.Contains(out.String(), "--- PASS: "+t.Name()) {
		t.Fatalf("%s in namespaces: %v", t.Name(), err)
	}
}

// World is two network namespaces joined by a cable: that of this process, in which
// clients are, and one of servers. Its methods are safe for concurrent use.
type World struct {
	servers string // path of the namespace
}

// The addresses of servers, and those of their gateway, which is with the clients.
const (
	Server4  = "10.0.0.1"
	Server6  = "fd00::1"
	Gateway4 = "10.0.0.2"
	Gateway6 = "fd00::2"
)

// The two ends, as ip -batch reads them. A "local" route makes the kernel take all
// addresses of a prefix for its own.
const (
	clientSide = `link set lo up
link add clients type veth peer name servers netns %s
addr add ` + Gateway4 + `/24 dev clients
addr add ` + Gateway6 + `/64 dev clients nodad
link set clients up
route add local 10.128.0.0/9 dev lo
route add local fd80::/16 dev lo
route add local 64:ff9b::/96 dev lo
`
	serverSide = `link set lo up
addr add ` + Server4 + `/24 dev servers
addr add ` + Server6 + `/64 dev servers nodad
link set servers up
route add default via ` + Gateway4 + `
route add default via ` + Gateway6 + `
`
)

// New makes the servers' namespace, and connects it with that of this process, which
// must be one of [Again]. One process has one World.
func New(t testkit.T) *World {
	t.Helper()
	servers, err := namespace()
	if err != nil {
		t.Fatalf("netns: no namespace for servers: %v", err)
	}
	t.Cleanup(func() { servers.Close() })
	w := &World{fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), servers.Fd())}
	batch(t, exec.Command("ip", "-batch", "-"), fmt.Sprintf(clientSide, w.servers))
	batch(t, w.Command("ip", "-batch", "-"), serverSide)
	for from, server := range map[netip.Addr]string{Clients4.Addr().Next(): Server4, Clients6.Addr().Next(): Server6} {
		// IPv6 is ready a moment after the cable is.
		testkit.Eventually(t, server+" is reached", func() bool { return reached(from, net.JoinHostPort(server, "1")) })
	}
	return w
}

// reached reports whether a port refuses a connection: nobody listens, and an answer comes.
func reached(from netip.Addr, server string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := Dial(ctx, from, server)
	return errors.Is(err, unix.ECONNREFUSED)
}

func batch(t testkit.T, ip *exec.Cmd, lines string) {
	t.Helper()
	ip.Stdin = strings.NewReader(lines)
	if out, err := ip.CombinedOutput(); err != nil {
		t.Fatalf("netns: %v: %v: %s", ip.Args, err, out)
	}
}

// namespace makes a network namespace, which is there as long as the file is open, or a
// process is in it.
func namespace() (file *os.File, err error) {
	err = inThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		file, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	return file, err
}

// inThread calls f in a thread of its own, which may enter namespaces: it ends with f.
func inThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		done <- f()
	}()
	return <-done
}

// Command is a program among the servers. Its process becomes the program's, so that
// its PID and signals are too.
func (w *World) Command(name string, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net=" + w.servers, name}, args...)...)
}

// Unprivileged is [World.Command] with CAP_NET_ADMIN as its only right: being root
// of the namespace counts for nothing.
func (w *World) Unprivileged(name string, args ...string) *exec.Cmd {
	return w.Command("setpriv", append([]string{
		"--securebits", "+noroot,+noroot_locked", "--no-new-privs",
		"--inh-caps", "-all,+net_admin", "--ambient-caps", "-all,+net_admin", "--bounding-set", "-all,+net_admin", name,
	}, args...)...)
}

// Output runs a program among the servers, to its end.
func (w *World) Output(t testkit.T, name string, args ...string) string {
	t.Helper()
	out, err := w.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("netns: %s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}
