package proxy

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/rawhttp"
)

// crowd is the number of slow readers of TestCrowd, and of slow writers. 4000 are the full
// size, which needs 16,100 descriptors in this process and half of that in two others.
var crowd = flag.Int("crowd", 20, "slow readers and slow writers of TestCrowd, of each; 4000 are the full size, and only then its times are judged")

const fullCrowd = 4000

// crowdRole is the variable by which TestCrowd tells its other processes what they are.
const crowdRole = "FASTLIMIT_CROWD"

// playCrowd is what a process does that TestCrowd has started.
func playCrowd(role string) {
	switch fields := strings.Fields(role); fields[0] {
	case "server":
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		fmt.Println(ln.Addr())
		go crowdServer(ln)
	case "clients":
		n, _ := strconv.Atoi(fields[2])
		for i := range 2 * n {
			crowdClient(fields[1], i%2 == 0)
			if i%100 == 0 {
				time.Sleep(10 * time.Millisecond) // the queue of the listener is short
			}
		}
		fmt.Println("connected")
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
}

// crowdServer streams for ever, or reads for ever, or answers at once.
func crowdServer(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			for in := bufio.NewReader(c); ; {
				req, err := http.ReadRequest(in)
				switch {
				case err != nil:
					return
				case req.URL.Path == "/endless":
					_, err = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
					for err == nil {
						_, err = io.WriteString(c, "400\r\n"+strings.Repeat("x", 0x400)+"\r\n")
					}
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			}
		}()
	}
}

// crowdPace is how often a slow client reads or writes a little.
const crowdPace = 5 * time.Second

func crowdClient(addr string, reads bool) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		panic(err)
	}
	if !reads {
		_, _ = io.WriteString(c, "POST /sink HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
		go func() {
			for err == nil {
				_, err = io.WriteString(c, "1\r\nx\r\n")
				time.Sleep(crowdPace)
			}
		}()
		return
	}
	_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	_, _ = io.WriteString(c, "GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
	go func() {
		for buf := make([]byte, 1<<10); err == nil; time.Sleep(crowdPace) {
			_, err = c.Read(buf)
		}
	}()
}

// crowdProcess starts a process, and returns the first line that it says.
func crowdProcess(t testing.TB, role string) (line string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), crowdRole+"="+role)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	line, err = bufio.NewReader(out).ReadString('\n')
	must(t, err)
	return strings.TrimSpace(line)
}

// Slow readers and slow writers do not slow a fast client: at full size, the 99th percentile
// of its times is at most twice what it is without them, in the median of several rounds.
// Not parallel: it measures.
func TestCrowd(t *testing.T) {
	s := start(t, func(o *standOptions) {
		o.pool.MaxConnections, o.pool.ResponseTimeout = 1<<14, time.Hour
	}, crowdProcess(t, "server"))
	c := rawhttp.DialFrom(t, "127.0.0.1", s.addr)
	_ = c.SetDeadline(time.Time{})
	in := bufio.NewReader(c)
	measure := func() time.Duration {
		times := make([]time.Duration, 100)
		if *crowd >= fullCrowd {
			times = make([]time.Duration, 3000)
		}
		for i := range times {
			begin := time.Now()
			_, err := io.WriteString(c, "GET /fast HTTP/1.1\r\nHost: a\r\n\r\n")
			must(t, err)
			resp, err := http.ReadResponse(in, nil)
			must(t, err)
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "ok" {
				t.Fatalf("%q %v", body, err)
			}
			times[i] = time.Since(begin)
		}
		slices.Sort(times)
		return times[len(times)*99/100]
	}
	var alone, among [7]time.Duration
	for i := range alone {
		alone[i] = measure()
	}
	crowdProcess(t, fmt.Sprintf("clients %s %d", s.addr, *crowd))
	rawhttp.Eventually(t, func() bool { return s.pool.Stats().Servers[0].InUse == 2**crowd })
	if *crowd >= fullCrowd {
		time.Sleep(2 * time.Second) // their sockets are full by then
	}
	memory := memory(t, "VmRSS")
	for i := range among {
		among[i] = measure()
	}
	slices.Sort(alone[:])
	slices.Sort(among[:])
	t.Logf("a fast client's 99th percentile: %v alone, %v among %d slow readers and as many slow writers; resident %d MiB", alone, among, *crowd, memory>>20)
	if pool := s.pool.Stats().Servers[0]; pool.InUse != 2**crowd || pool.Failures != 0 {
		t.Errorf("%+v", pool)
	}
	if *crowd >= fullCrowd && among[3] > 2*alone[3] {
		t.Errorf("the 99th percentile is %v among them and %v alone", among[3], alone[3])
	}
	// The drain would wait for them.
	s.front.Conns.CloseAll()
	rawhttp.Eventually(t, func() bool { return s.pool.Stats().Servers[0].InUse == 0 })
}
