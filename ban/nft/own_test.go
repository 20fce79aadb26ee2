//go:build linux && netns

package nft

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// host is another machine: a network namespace, with one address.
type host struct {
	*testing.T
	pid  int
	addr string
}

// newHost makes a host that has this machine as its gateway, over a network of its own.
func newHost(t *testing.T, n int) *host {
	t.Helper()
	holder := exec.Command("sleep", "600") // not until its thread dies: that may be one of there
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { holder.Process.Kill(); holder.Wait() })
	h := &host{t, holder.Process.Pid, fmt.Sprintf("10.9.%d.2", n)}
	command(t, "ip", "link", "add", fmt.Sprint("own", n), "type", "veth", "peer", "name", "v", "netns", fmt.Sprint(h.pid))
	command(t, "ip", "addr", "add", fmt.Sprintf("10.9.%d.1/24", n), "dev", fmt.Sprint("own", n))
	command(t, "ip", "link", "set", fmt.Sprint("own", n), "up")
	for _, line := range []string{"addr add " + h.addr + "/24 dev v", "link set v up", fmt.Sprintf("route add default via 10.9.%d.1", n)} {
		command(t, "nsenter", append([]string{"-t", fmt.Sprint(h.pid), "-n", "ip"}, strings.Fields(line)...)...)
	}
	return h
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v %s", name, args, err, out)
	}
}

// there runs f on a thread of the host.
func (h *host) there(f func()) {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", h.pid))
		if err == nil {
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
			ns.Close()
		}
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		h.Fatal(err)
	}
}

// connects reports whether the host gets a connection, for which a while is enough if it is not
// dropped.
func (h *host) connects(to string, patience time.Duration) (ok bool) {
	h.there(func() {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			h.Error(err)
			return
		}
		defer unix.Close(fd)
		wait := unix.NsecToTimeval(patience.Nanoseconds())
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &wait); err != nil {
			h.Error(err)
		}
		at := netip.MustParseAddrPort(to)
		ok = unix.Connect(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}) == nil
	})
	return ok
}

// TestDropsNothingOfOthers: of a banned client nothing is dropped but what is sent to the listeners:
// not what it sends to other programs that have the same port at another address, nor to hosts
// behind this machine, while what a redirect brings to a listener is.
func TestDropsNothingOfOthers(t *testing.T) {
	client, behind := newHost(t, 1), newHost(t, 2)
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, "ip", "addr", "add", "10.9.1.5/24", "dev", "own1")
	ours := serve(t, "10.9.1.1")
	port := netip.MustParseAddrPort(ours).Port()
	other, beyond := fmt.Sprintf("10.9.1.5:%d", port), fmt.Sprintf("%s:%d", behind.addr, port)
	l, err := net.Listen("tcp", other)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	behind.there(func() {
		l, err := net.Listen("tcp", beyond)
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { l.Close() })
	})
	redirected := "10.9.1.1:7"
	mustTool(t, fmt.Sprintf("add table ip rdr; add chain ip rdr pre { type nat hook prerouting priority dstnat; }; add rule ip rdr pre tcp dport 7 redirect to :%d", port))
	t.Cleanup(func() { mustTool(t, "delete table ip rdr") })
	const long, short = 20 * time.Second, 100 * time.Millisecond
	for _, c := range []struct {
		table  string
		listen netip.AddrPort
		drops  []string
		passes []string
	}{
		{"one_address", netip.MustParseAddrPort(ours), []string{ours, redirected}, []string{other, beyond}},
		{"all_addresses", netip.AddrPortFrom(netip.IPv6Unspecified(), port), []string{ours, redirected, other}, []string{beyond}},
		{"all_of_IPv4", netip.AddrPortFrom(netip.IPv4Unspecified(), port), []string{ours, redirected, other}, []string{beyond}},
		{"IPv6_alone", netip.AddrPortFrom(netip.MustParseAddr("fd00::1"), port), nil, []string{ours, redirected, other, beyond}},
	} {
		s := open(t, Config{Table: c.table, Listens: []netip.AddrPort{c.listen}}, false)
		for _, to := range []string{ours, redirected, other, beyond} {
			if !client.connects(to, long) {
				t.Fatalf("%s: %s is not reached before the ban", c.table, to)
			}
		}
		s.Add(netip.MustParsePrefix(client.addr+"/32"), time.Hour)
		until(t, "told", func() bool { return s.Stats().Pending == 0 && s.Stats().Up })
		for _, to := range c.passes {
			if !client.connects(to, long) {
				t.Errorf("%s: what is sent to %s is dropped", c.table, to)
			}
		}
		for _, to := range c.drops {
			if client.connects(to, short) {
				t.Errorf("%s: what is sent to %s is not dropped", c.table, to)
			}
		}
		dropped := func() bool { return s.Stats().Packets > 0 }
		if len(c.drops) > 0 {
			until(t, "counted", dropped)
		}
		s.Remove(netip.MustParsePrefix(client.addr + "/32"))
		until(t, "told", func() bool { return s.Stats().Pending == 0 })
	}
}
