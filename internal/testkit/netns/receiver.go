//go:build linux

package netns

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Receiver gives what the kernel does with packets that reach the servers to a thread of its
// own, and returns its PID: the CPU time of that process is what it spends on them, packet
// filter included. Without it that is part of the clients' time, since a virtual cable
// delivers within the call that sends.
func (w *World) Receiver() (pid int, err error) {
	// The kernel polls a virtual device only for what a network card would send: single packets.
	if err := setFeature("clients", unix.ETHTOOL_STSO, 0); err != nil {
		return 0, err
	}
	before := receivers()
	err = inThread(func() error {
		f, err := os.Open(w.servers)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
			return os.NewSyscallError("setns", err)
		}
		if err := setFeature("servers", unix.ETHTOOL_SGRO, 1); err != nil {
			return err
		}
		// A sysfs of this namespace, in a tree of mounts that nobody else sees.
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return os.NewSyscallError("unshare", err)
		}
		if err := unix.Mount("none", "/sys", "sysfs", 0, ""); err != nil {
			return fmt.Errorf("mount sysfs: %w", err)
		}
		return os.WriteFile("/sys/class/net/servers/threaded", []byte("1"), 0)
	})
	if err != nil {
		return 0, fmt.Errorf("netns: no thread for received packets: %w", err)
	}
	for _, pid := range receivers() {
		if !slices.Contains(before, pid) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("netns: the kernel has made no thread for received packets")
}

// receivers are the threads that exist, of this World and of others.
func receivers() (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, name := range names {
		comm, _ := os.ReadFile(name) // it may be gone
		if strings.HasPrefix(string(comm), "napi/servers") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name))) // digits
			pids = append(pids, pid)
		}
	}
	return pids
}

// setFeature is ethtool -K: TSO, by which a device is sent long packets to cut, or GRO, by which
// it is polled and makes long packets of those that have come.
func setFeature(device string, feature, on uint32) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer func() { _ = unix.Close(socket) }() // nothing is written to it
	value := [2]uint32{feature, on}
	request := struct {
		name  [unix.IFNAMSIZ]byte
		value unsafe.Pointer
		_     [16]byte // of other members of the union
	}{value: unsafe.Pointer(&value)}
	copy(request.name[:], device)
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); e != 0 {
		return os.NewSyscallError("ioctl", e)
	}
	return nil
}
