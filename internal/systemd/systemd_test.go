package systemd

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// files are sockets by name, which are never read.
func files(t *testing.T, names ...string) (all []*os.File) {
	t.Helper()
	for _, name := range names {
		null, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		fd, err := syscall.Dup(int(null.Fd())) // of its own: what two close may be a stranger's by then
		if err != nil {
			t.Fatal(err)
		}
		null.Close()
		f := os.NewFile(uintptr(fd), name)
		t.Cleanup(func() { f.Close() })
		all = append(all, f)
	}
	return all
}

// TestFind finds a socket by its name, and says what to do where there is not one of it.
func TestFind(t *testing.T) {
	t.Parallel()
	all := files(t, "http", "twice", "twice")
	if f, err := find(all, "http"); err != nil || f != all[0] {
		t.Errorf("%v, %v", f, err)
	}
	for name, want := range map[string]string{
		"admin": "no socket of this name was passed (there are http, twice, twice): start fastlimit by a socket unit with FileDescriptorName=admin",
		"twice": "two sockets have this name",
	} {
		if _, err := find(all, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := find(nil, "http"); err == nil || !strings.Contains(err.Error(), "there is none at all") {
		t.Errorf("none: %v", err)
	}
}

// TestUnused: sockets that nothing listens on are named, each.
func TestUnused(t *testing.T) {
	t.Parallel()
	all := files(t, "http", "admin", "old")
	err := unused(all, []string{"systemd:http", "127.0.0.1:8081"})
	if err == nil || strings.Count(err.Error(), "on which nothing listens") != 2 || !strings.Contains(err.Error(), "write listen: systemd:old") {
		t.Errorf("%v", err)
	}
	if err := unused(all[:1], []string{"systemd:http"}); err != nil {
		t.Errorf("all in use: %v", err)
	}
}

// TestNameProblem: a name stands in addresses and in a list apart by colons.
func TestNameProblem(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"http": true, "Http-2_x.socket": true, "": false, "8080": false, "a:b": false, "a b": false, "é": false, "-a": false, strings.Repeat("a", 256): false,
	} {
		if got := NameProblem(name); (got == "") != ok {
			t.Errorf("%q: %q", name, got)
		}
	}
}

// TestNotifier sends what sd_notify(3) has, to the socket that the environment names.
func TestNotifier(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	ln, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var log strings.Builder
	n := Notifier{Log: slog.New(slog.NewTextHandler(&log, nil))}
	n.Ready("nobody hears this")
	t.Setenv("NOTIFY_SOCKET", path)
	for send, want := range map[string]struct {
		f    func()
		text string
	}{
		"ready":     {func() { n.Ready("fine") }, "READY=1\nSTATUS=fine"},
		"reloading": {n.Reloading, "RELOADING=1\nMONOTONIC_USEC="},
		"stopping":  {n.Stopping, "STOPPING=1\n"},
		"alive":     {n.Alive, "WATCHDOG=1"},
	} {
		want.f()
		buf := make([]byte, 1000)
		size, err := ln.Read(buf)
		if got := string(buf[:size]); err != nil || !strings.HasPrefix(got, want.text) {
			t.Errorf("%s: %q, %v", send, got, err)
		}
	}
	ln.Close()
	n.Alive()
	n.Alive()
	if got := strings.Count(log.String(), "cannot be told"); got != 1 {
		t.Errorf("%d lines of the log: %s", got, &log)
	}
}
