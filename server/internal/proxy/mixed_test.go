package proxy

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// mixedAnswers is the number of answers of TestNeverMixed. 1000000 take some two minutes.
var mixedAnswers = flag.Int("answers", 0, "answers that the clients of TestNeverMixed check; 0: 12000, fewer with -short")

const mixedClients = 64

// wild is a server that answers most requests with their marker, in the head and in the
// body, and the others with nonsense. No byte of an answer lacks the marker of its request,
// but for poison.
func wild(t testing.TB, said *[2]atomic.Uint64) (addr string) {
	var all []nonsense
	for _, n := range nonsenses() {
		if len(n.answer) < 4<<10 && n.more == "" && n.reason != "closed" { // of what is whole
			all = append(all, n)
		}
	}
	return serveRaw(t, func(c net.Conn, n int) {
		rng := rand.New(rand.NewPCG(24, uint64(n)))
		for in := bufio.NewReader(c); ; {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			early := req.ContentLength != 0 && rng.IntN(20) == 0
			if !early {
				if _, err := io.Copy(io.Discard, req.Body); err != nil {
					return
				}
			}
			answer, ends := goodAnswer(rng, req.Method), false
			if rng.IntN(10) == 0 {
				n := &all[rng.IntN(len(all))]
				if n.method == "" || n.method == req.Method {
					answer, ends = n.answer, n.closes || rng.IntN(2) == 0
					said[0].Add(1)
				}
			}
			answer = render(answer, req.URL.Path)
			if rng.IntN(50) == 0 {
				answer, ends = answer[:rng.IntN(len(answer)+1)], true
				said[0].Add(1)
			}
			said[1].Add(1)
			if err = say(c, rng, answer); err != nil || ends {
				return
			}
			if early {
				if _, err := io.Copy(io.Discard, req.Body); err != nil {
					return
				}
			}
		}
	})
}

// say writes an answer at once: one that comes unasked after the next request looks like an answer to that.
// Others come in two pieces.
func say(c net.Conn, rng *rand.Rand, answer string) error {
	if rng.IntN(8) == 0 && !strings.Contains(answer, "poison") {
		cut := rng.IntN(len(answer) + 1)
		if _, err := io.WriteString(c, answer[:cut]); err != nil {
			return err
		}
		answer = answer[cut:]
	}
	_, err := io.WriteString(c, answer)
	return err
}

// goodAnswer is one in any of the forms that there are.
func goodAnswer(rng *rand.Rand, method string) string {
	const markers = "@@@@@@@@"
	body := markers[:1+rng.IntN(len(markers))]
	switch form := rng.IntN(8); {
	case method == http.MethodHead:
		return okHead + "Content-Length: 9\r\n\r\n"
	case form == 0:
		return "HTTP/1.1 103 Early Hints\r\nX-Marker: @\r\n\r\n" + okHead + "X-Length: #\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("#\r\n@\r\n", len(body)) + "0\r\nX-Trailer: @\r\n\r\n"
	case form == 1:
		return "HTTP/1.1 204 No Content\r\nX-Marker: @\r\n\r\n"
	case form == 2: // longer than the proxy's first buffer
		body = strings.Repeat(markers, 100)
	}
	return okHead + "Content-Length: %" + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

// render fills a marker in, whose length # and multiples of it %n are.
func render(answer, marker string) string {
	var b strings.Builder
	for len(answer) > 0 {
		i := strings.IndexAny(answer, "@#%")
		if i < 0 {
			b.WriteString(answer)
			break
		}
		b.WriteString(answer[:i])
		switch answer[i] {
		case '@':
			b.WriteString(marker)
		case '#':
			b.WriteString(strconv.FormatInt(int64(len(marker)), 16))
		}
		rest := answer[i+1:]
		if answer[i] == '%' {
			digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
			n, _ := strconv.Atoi(rest[:digits])
			b.WriteString(strconv.Itoa(n * len(marker)))
			rest = rest[digits:]
		}
		answer = rest
	}
	return b.String()
}

// checker is a client that checks that all it gets is its own.
type checker struct {
	t      testing.TB
	id     int
	addr   string
	rng    *rand.Rand
	asked  int
	want   *atomic.Int64 // answers that are to come
	failed *atomic.Uint64
	cut    *atomic.Uint64
}

// run asks on one connection after the other until all answers have come.
func (k *checker) run() {
	for k.want.Load() > 0 && !k.t.Failed() {
		c, err := net.Dial("tcp", k.addr)
		if err != nil {
			k.t.Error(err)
			return
		}
		_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
		in := bufio.NewReader(c)
		for k.want.Load() > 0 && k.batch(c, in) {
		}
		c.Close()
	}
}

// batch sends a few requests at once, and reads their answers. It reports whether the connection continues.
func (k *checker) batch(c net.Conn, in *bufio.Reader) bool {
	var out strings.Builder
	var methods, markers []string
	n := 1
	if k.rng.IntN(4) == 0 {
		n += k.rng.IntN(7)
	}
	for range n {
		k.asked++
		marker := fmt.Sprintf("/c%d-%d", k.id, k.asked)
		method := []string{"GET", "GET", "GET", "POST", "POST", "PUT", "HEAD", "OPTIONS"}[k.rng.IntN(8)]
		fmt.Fprintf(&out, "%s %s HTTP/1.1\r\nHost: a\r\n", method, marker)
		switch size := k.rng.IntN(3000); {
		case method != "POST" && method != "PUT":
			out.WriteString("\r\n")
		case size%2 == 0:
			fmt.Fprintf(&out, "Content-Length: %d\r\n\r\n%s", size, strings.Repeat("b", size))
		default:
			fmt.Fprintf(&out, "Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", size, strings.Repeat("c", size))
		}
		methods, markers = append(methods, method), append(markers, marker)
	}
	stream := out.String()
	leaves := k.rng.IntN(200)
	if leaves == 0 {
		stream = stream[:k.rng.IntN(len(stream))]
	}
	if _, err := io.WriteString(c, stream); err != nil || leaves < 2 {
		return false
	}
	for i := range markers {
		if leaves == 2 && k.rng.IntN(2) == 0 || !k.answer(in, methods[i], markers[i]) {
			return false
		}
	}
	return true
}

// answer reads one answer, and checks whose it is.
func (k *checker) answer(in *bufio.Reader, method, marker string) bool {
	for {
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			return false // the connection has ended, before the answer or within its head
		}
		if resp.StatusCode < 200 {
			if v := resp.Header.Get("X-Marker"); v != "" && v != marker {
				k.t.Errorf("%s %s gets the hints of %s", method, marker, v)
			}
			continue
		}
		body, err := io.ReadAll(resp.Body)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			k.cut.Add(1)
		}
		k.want.Add(-1)
		k.check(resp, string(body), method, marker)
		return err == nil && !resp.Close
	}
}

func (k *checker) check(resp *http.Response, body, method, marker string) {
	if resp.StatusCode == http.StatusBadGateway {
		k.failed.Add(1)
		if method != http.MethodHead && !strings.HasPrefix(body, `{"type":`) {
			k.t.Errorf("%s %s: %q", method, marker, body)
		}
		return
	}
	if v := resp.Header.Get("X-Marker"); v != marker {
		k.t.Errorf("%s %s gets the head of %q: %v", method, marker, v, resp)
	}
	if v := resp.Trailer.Get("X-Trailer"); v != "" && v != marker {
		k.t.Errorf("%s %s gets the trailer of %q", method, marker, v)
	}
	rest := strings.ReplaceAll(body, marker, "")
	if begins := func(all string) bool { return strings.HasPrefix(all, rest) }; !begins(marker) && !begins("ok") && !begins("hello") { // of what is cut
		k.t.Errorf("%s %s gets the body %.200q", method, marker, rest)
	}
}

// Clients that ask one by one, in pipelines, with and without bodies, and leave in the
// middle, get their own answers and nothing of anybody else's, although the server's
// connections are few and much of what it says is nonsense.
func TestNeverMixed(t *testing.T) {
	t.Parallel()
	n := *mixedAnswers
	if n == 0 {
		n = testkit.Size(12_000, 50_000)
		if testing.Short() {
			n = 4000
		}
	}
	var said [2]atomic.Uint64
	var want atomic.Int64
	var failed, cut atomic.Uint64
	s := start(t, func(o *standOptions) {
		o.pool.MaxConnections, o.pool.QueueTimeout, o.pool.IdleTimeout = 8, time.Minute, 5*time.Second
	}, wild(t, &said))
	rare := func() bool { return s.Stats().Retries > 0 && s.Stats().Left > 0 }
	for round := uint64(1); round == 1 || round < 10 && !testing.Short() && !rare(); round++ {
		want.Store(int64(n))
		var wg sync.WaitGroup
		for id := range mixedClients {
			wg.Go(func() {
				k := &checker{t: t, id: id, addr: s.addr, rng: rand.New(rand.NewPCG(round, uint64(id))), want: &want, failed: &failed, cut: &cut}
				k.run()
			})
		}
		wg.Wait()
	}
	s.drain()
	st, pool := s.Stats(), s.pool.Stats().Servers[0]
	t.Logf("%d answers, %d of them failures, %d cut; the server has given %d answers, %d of them nonsense; %+v %+v", n, failed.Load(), cut.Load(), said[1].Load(), said[0].Load(), st, pool)
	if failed.Load() < uint64(n)/100 || cut.Load() == 0 || !testing.Short() && !rare() {
		t.Error("too little nonsense") // a short run may lack what is rare
	}
	if pool.InUse != 0 || pool.Idle != 0 {
		t.Errorf("%d connections are in use, %d idle", pool.InUse, pool.Idle)
	}
}
