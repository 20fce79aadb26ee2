package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// holdEnv tells the test binary to hold connections: "ADDR SOURCE N FILE".
const holdEnv = "FASTLIMIT_TEST_HOLD"

// portLater has the port of a connection chosen when it is connected, where the system can.
var portLater func(network, address string, c syscall.RawConn) error

// hold opens n connections from one address, or from n/1000 addresses that
// follow it, sends what the file holds on each, and keeps them until its stdin
// ends.
func hold(what string) {
	var addr, source, file string
	var n int
	if _, err := fmt.Sscan(what, &addr, &source, &n, &file); err != nil {
		fmt.Println(err)
		return
	}
	text, err := os.ReadFile(file)
	if err != nil {
		fmt.Println(err)
		return
	}
	var open []net.Conn
	spread := strings.HasSuffix(source, "+")
	ip := net.ParseIP(strings.TrimSuffix(source, "+")).To4()
	for i := range n {
		from := net.IPv4(ip[0], ip[1], ip[2], ip[3])
		if spread {
			from[15] += byte(i / 1000)
		}
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}, Timeout: hang, Control: portLater}
		c, err := d.Dial("tcp", addr)
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = c.SetDeadline(time.Now().Add(hang))
		// One that was ended for another fails, which is as it should be.
		if _, err := c.Write(text); err == nil && !spread {
			_, _ = c.Read(make([]byte, 1024))
		}
		open = append(open, c)
	}
	fmt.Println("holding")
	_, _ = io.Copy(io.Discard, os.Stdin)
	for _, c := range open {
		c.Close()
	}
}

// startHold runs a process that holds connections. The result waits until it
// holds them all.
func startHold(t *testing.T, addr, source string, n int, text string) (holding func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d %s", holdEnv, addr, source, n, writeFile(t, "request", text)))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); _ = cmd.Wait() })
	return func() {
		t.Helper()
		if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "holding\n" {
			t.Fatalf("a client process: %s%v", line, err)
		}
	}
}
