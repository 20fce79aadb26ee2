package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// activated is the binary as a service manager starts it, with the files as sockets of these names, apart by colons.
func activated(names string, files []*os.File, args ...string) *exec.Cmd {
	cmd := exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`, binary, "serve"}, args...)...)
	cmd.ExtraFiles = files
	cmd.Env = append(os.Environ(), fmt.Sprintf("LISTEN_FDS=%d", len(files)), "LISTEN_FDNAMES="+names)
	return cmd
}

// socketFile is a listening socket as a service manager keeps it, and its address.
func socketFile(t *testing.T, network, address string) (*os.File, string) {
	t.Helper()
	var plain net.ListenConfig
	plain.SetMultipathTCP(false) // as systemd's are, unless the unit says so
	ln, err := plain.Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if u, ok := ln.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	f, err := ln.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, ln.Addr().String()
}

// visits asks again and again, by connections that are new each time and by one that is kept,
// until stop is called. Each question has to be answered completely.
func visits(t *testing.T, url string) (stop func() (answers int64)) {
	t.Helper()
	var answers, all atomic.Int64
	var over atomic.Bool
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			c := &http.Client{Transport: &http.Transport{DisableKeepAlives: i > 0}, Timeout: hang}
			defer c.CloseIdleConnections()
			for !over.Load() {
				req, err := http.NewRequest(http.MethodGet, url, http.NoBody)
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("X-Forwarded-For", fmt.Sprintf("10.%d.0.1", all.Add(1)%250))
				resp, err := c.Do(req)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				if err != nil {
					t.Errorf("a request was lost: %v", err)
					return
				}
				answers.Add(1)
				time.Sleep(time.Millisecond) // for the processes that they ask
			}
		})
	}
	return func() int64 { over.Store(true); clients.Wait(); return answers.Load() }
}

// statusFor is what a client behind a proxy is answered.
func statusFor(t *testing.T, url, client string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Forwarded-For", client)
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

const strict = "trusted_proxies: [127.0.0.1]\ndrain: {delay: 0s}\nrules: [{name: per-ip, key: ip, rate: 1/h, burst: 1}]\n"

// TestActivationLosesNobody: while a service with socket activation restarts again and again, each
// request is answered, and who is denied stays denied.
func TestActivationLosesNobody(t *testing.T) {
	severalPrograms(t)
	t.Parallel()
	starts := testkit.Size(8, 20)
	socket, address := socketFile(t, "tcp", "127.0.0.1:0")
	admin, path := socketFile(t, "unix", filepath.Join(t.TempDir(), "admin"))
	file := writeFile(t, "fastlimit.yaml", strict+"listen: systemd:http\nadmin: systemd:admin\nstate_file: "+filepath.Join(t.TempDir(), "state")+"\n")
	url := "http://" + address + "/"
	var stop func() int64
	for i := range starts {
		p := start(t, activated("http:admin", []*os.File{socket, admin}, "-c", file))
		if i == 0 {
			stop = visits(t, url)
			for range 3 {
				statusFor(t, url, "192.0.2.7")
			}
		}
		if got := statusFor(t, url, "192.0.2.7"); got != http.StatusTooManyRequests {
			t.Errorf("start %d: the attacker is answered %d", i, got)
		}
		if p.listen != address || !strings.HasSuffix(p.admin, path) {
			t.Errorf("it listens on %s and %s", p.listen, p.admin)
		}
		if i < starts-1 {
			p.signal(syscall.SIGTERM)
			p.wait()
		}
	}
	if n := stop(); n < 20 {
		t.Errorf("%d requests", n)
	}
}

// TestActivationMistakes: sockets and listeners that do not fit are named.
func TestActivationMistakes(t *testing.T) {
	t.Parallel()
	socket, _ := socketFile(t, "tcp", "127.0.0.1:0")
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	packets, err := udp.File()
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	for _, c := range []struct {
		names, listen, want string
		files               []*os.File
	}{
		{"", "systemd:http", "listen systemd:http: no socket of this name was passed (there is none at all)", nil},
		{"old", "systemd:http", `the socket unit passes "old", on which nothing listens: write listen: systemd:old`, []*os.File{socket}},
		{"http:http", "systemd:http", "two sockets have this name: make a socket unit for each", []*os.File{socket, socket}},
		{"http", "systemd:http", "the socket is not one that accepts connections", []*os.File{packets}},
		{"http", "systemd:a/b", `"a/b" is not the name of a socket`, nil},
	} {
		cmd := activated(c.names, c.files, "--listen", c.listen, "--admin", "127.0.0.1:0")
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s on %s: %v\n%s\nwant %s", c.names, c.listen, err, out, c.want)
		}
	}
}

// TestReloadKeepsPassedSockets: a reload that leaves a socket without a listener changes nothing, as its
// clients would wait for ever.
func TestReloadKeepsPassedSockets(t *testing.T) {
	t.Parallel()
	socket, address := socketFile(t, "tcp", "127.0.0.1:0")
	file := writeFile(t, "fastlimit.yaml", strict+"listen: systemd:http\nadmin: 127.0.0.1:0\n")
	p := start(t, activated("http", []*os.File{socket}, "-c", file))
	if err := os.WriteFile(file, []byte(strict+"listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	if line := p.waitLog("reload"); !strings.Contains(line, "on which nothing listens: write listen: systemd:http") {
		t.Fatal(line)
	}
	if got := statusFor(t, "http://"+address+"/", "192.0.2.1"); got != http.StatusOK {
		t.Errorf("status %d", got)
	}
}

// TestSocketActivate starts by the program that systemd has for it, on the first connection.
func TestSocketActivate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "http.sock")
	p := launch(t, exec.Command("systemd-socket-activate", "-l", path, "--fdname=http", binary, "serve", "--listen", "systemd:http", "--admin", "127.0.0.1:0"))
	p.waitLog("Listening on")
	c := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", path) }}}
	resp, err := c.Get("http://localhost/")
	if err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%v, %v", resp, err)
	}
}

// TestServiceManagerIsTold: readiness, each reload and how it went, the watchdog, and the end.
func TestServiceManagerIsTold(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notify")
	told, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer told.Close()
	if err := told.SetReadDeadline(time.Now().Add(hang)); err != nil {
		t.Fatal(err)
	}
	until := func(parts ...string) {
		t.Helper()
		for buf := make([]byte, 4096); ; {
			n, err := told.Read(buf)
			if err != nil {
				t.Fatalf("%v was not said: %v", parts, err)
			}
			if text := string(buf[:n]); strings.HasPrefix(text, parts[0]) {
				for _, part := range parts[1:] {
					if !strings.Contains(text, part) {
						t.Errorf("%q lacks %q", text, part)
					}
				}
				return
			}
		}
	}
	file := writeFile(t, "fastlimit.yaml", strict)
	cmd := exec.Command(binary, "serve", "-c", file, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+path)
	p := start(t, cmd)
	until("READY=1", "STATUS=serving on "+p.listen)
	until("WATCHDOG=1")
	if err := os.WriteFile(file, []byte("rules: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	until("RELOADING=1", "MONOTONIC_USEC=")
	until("READY=1", "the last reload changed nothing", file+":1:8")
	if err := os.WriteFile(file, []byte(strict), 0o600); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	until("READY=1", "STATUS=serving on "+p.listen)
	until("WATCHDOG=1")
	until("WATCHDOG=1") // the one before may be of before the reload
	p.signal(syscall.SIGTERM)
	until("STOPPING=1")
	p.wait()
}
