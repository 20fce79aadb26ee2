package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/rawhttp"
)

// A client that leaves while the app is slow frees its connection to the app at once, and
// says nothing about the app.
func TestClientsLeave(t *testing.T) {
	t.Parallel()
	addr, asked, ended, _ := blocking(t)
	s := start(t, nil, addr)
	const clients = 6
	var conns []net.Conn
	for i := range clients {
		c := rawhttp.DialFrom(t, "127.0.0.1", s.addr)
		_, _ = io.WriteString(c, []string{"GET /a HTTP/1.1\r\nHost: a\r\n\r\n", "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nok"}[i%2])
		conns = append(conns, c)
		<-asked
	}
	for i, c := range conns {
		if i%3 == 0 {
			_ = c.(*net.TCPConn).SetLinger(0)
		}
		c.Close()
	}
	rawhttp.Eventually(t, func() bool {
		return ended.Load() == clients && s.pool.Stats().Servers[0].InUse == 0 && s.Stats().Left == clients
	})
	st, pool := s.Stats(), s.pool.Stats().Servers[0]
	if pool.Failures != 0 || pool.Ejections != 0 || st.Failures["closed"] != 0 || st.Answers["2xx"] != 0 {
		t.Errorf("%+v %+v", st, pool)
	}
}

// A client that leaves while its request waits for a connection to the app immediately loses its slot,
// however long the others wait: they are served in their order.
func TestClientsLeaveTheQueue(t *testing.T) {
	t.Parallel()
	addr, asked, _, release := blocking(t)
	s := start(t, func(o *standOptions) { o.pool.MaxConnections = 1 }, addr)
	waiting := 0
	ask := func(source, text string) net.Conn {
		t.Helper()
		c := rawhttp.DialFrom(t, source, s.addr)
		_, _ = io.WriteString(c, text)
		rawhttp.Eventually(t, func() bool { return s.pool.Stats().Queue == waiting })
		waiting++
		return c
	}
	const get = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n"
	first := ask("127.0.0.1", get)
	<-asked
	closes, stays, resets, uploads := ask("127.0.0.2", get), ask("127.0.0.3", get), ask("127.0.0.4", get), ask("127.0.0.5", "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nsome")
	pipelines := ask("127.0.0.6", get+get)
	for i, c := range []net.Conn{closes, resets, uploads, pipelines} {
		if c == resets {
			_ = c.(*net.TCPConn).SetLinger(0)
		}
		c.Close()
		rawhttp.Eventually(t, func() bool { st := s.pool.Stats(); return st.Queue == 4-i && st.Left == uint64(i+1) })
	}
	rawhttp.Eventually(t, func() bool { return s.Stats().Left == 4 })
	release()
	for _, c := range []net.Conn{first, stays} {
		if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != 200 {
			t.Errorf("%v %v", resp, err)
		}
	}
	if st := s.pool.Stats(); st.Served != 1 || st.Servers[0].Failures != 0 || st.TimedOut != 0 {
		t.Errorf("%+v", st)
	}
}

// A request that waits for a connection to the app exceeds no limit, and so its connection makes no
// room for others.
func TestQueuedStay(t *testing.T) {
	t.Parallel()
	addr, asked, _, release := blocking(t)
	s := start(t, func(o *standOptions) { o.pool.MaxConnections, o.limits.Max = 1, 2 }, addr)
	const get = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n"
	first := rawhttp.DialFrom(t, "127.0.0.1", s.addr)
	_, _ = io.WriteString(first, get)
	<-asked
	second := rawhttp.DialFrom(t, "127.0.0.2", s.addr)
	_, _ = io.WriteString(second, get)
	rawhttp.Eventually(t, func() bool { return s.pool.Stats().Queue == 1 })
	third := rawhttp.DialFrom(t, "127.0.0.3", s.addr)
	_, _ = io.WriteString(third, get)
	_ = third.SetReadDeadline(time.Now().Add(10 * time.Second)) // else it has taken the second one's place
	if resp, err := http.ReadResponse(bufio.NewReader(third), nil); err == nil && resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the third of two connections: %v", resp)
	}
	if st := s.pool.Stats(); st.Queue != 1 || st.Left != 0 {
		t.Errorf("%+v", st)
	}
	release()
	for _, c := range []net.Conn{first, second} {
		if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != 200 {
			t.Errorf("%v %v", resp, err)
		}
	}
}

// So does a stream that is given up; its connection continues.
func TestHTTP2ClientsLeaveTheQueue(t *testing.T) {
	t.Parallel()
	addr, asked, _, release := blocking(t)
	s := start(t, func(o *standOptions) { overHTTP2(t)(o); o.pool.MaxConnections = 1 }, addr)
	c := client2(t)
	var first sync.WaitGroup
	first.Go(func() { _, _ = do(t, c, request(t, "GET", "https://"+s.addr+"/", nil)) })
	<-asked
	for left := range uint64(3) {
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() {
			_, err := c.Do(request(t, "GET", "https://"+s.addr+"/", nil).WithContext(ctx))
			failed <- err
		}()
		rawhttp.Eventually(t, func() bool { return s.pool.Stats().Queue == 1 })
		cancel()
		if err := <-failed; err == nil {
			t.Error("it is answered")
		}
		rawhttp.Eventually(t, func() bool { st := s.pool.Stats(); return st.Queue == 0 && st.Left == left+1 })
	}
	if n := s.front.Conns.Open(); n != 1 {
		t.Errorf("%d connections", n)
	}
	release()
	first.Wait()
}

// What clients do wrong does not have a server ejected, and what they give up does not have
// it taken for well.
func TestClientsSayNothingOfTheServer(t *testing.T) {
	t.Parallel()
	s := start(t, nil, serveRaw(t, echo))
	for range 10 {
		c := rawhttp.DialFrom(t, "127.0.0.1", s.addr)
		_, _ = io.WriteString(c, "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
		rawhttp.Eventually(t, func() bool { return s.pool.Stats().Servers[0].InUse == 1 })
		_, _ = io.WriteString(c, "zz\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != 400 || !resp.Close {
			t.Fatalf("%v %v", resp, err)
		}
	}
	if pool := s.pool.Stats().Servers[0]; pool.Failures != 0 || pool.Ejections != 0 {
		t.Errorf("%+v", pool)
	}

	addr, asked, _, _ := blocking(t)
	s = start(t, func(o *standOptions) { o.pool.ResponseTimeout = 100 * time.Millisecond }, addr)
	k := &talker{t: t, addr: s.addr}
	for !s.pool.Stats().Servers[0].Ejected {
		if resp, _, err := k.ask("GET", "/slow", ""); err != nil || resp.StatusCode != http.StatusGatewayTimeout {
			t.Fatalf("%v %v", resp, err)
		}
		<-asked
	}
	c := rawhttp.DialFrom(t, "127.0.0.1", s.addr)
	_, _ = io.WriteString(c, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
	<-asked
	c.Close()
	rawhttp.Eventually(t, func() bool { return s.pool.Stats().Servers[0].InUse == 0 })
	if pool := s.pool.Stats().Servers[0]; !pool.Ejected {
		t.Errorf("taken back: %+v", pool)
	}
}

// A client that does not read its answer is cut off in time, though it keeps sending, and comes to the end of
// that.
func TestUploadersThatDoNotRead(t *testing.T) {
	t.Parallel()
	stalled, over := make(chan struct{}), make(chan struct{})
	s := start(t, func(o *standOptions) { o.limits.Write, o.pool.IdleTimeout = 2*time.Second, time.Hour }, serveRaw(t, func(c net.Conn, _ int) {
		in := bufio.NewReader(c)
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		for buf := make([]byte, 1<<16); err == nil; { // until nothing is taken any more
			_ = c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
			_, err = c.Write(buf)
		}
		close(stalled)
		_, _ = io.Copy(io.Discard, req.Body)
		<-over
	}))
	t.Cleanup(func() { close(over) })
	c := rawhttp.DialFrom(t, "127.0.0.1", s.addr)
	_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	_, _ = io.WriteString(c, "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
	<-stalled
	_, _ = io.WriteString(c, "world")
	rawhttp.Eventually(t, func() bool { return s.pool.Stats().Servers[0].InUse == 0 })
}
