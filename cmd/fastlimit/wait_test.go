package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
	"github.com/fastlimit/fastlimit/limit"
)

// serveWaiting serves one rule for each address with a burst of 1.
func serveWaiting(t *testing.T, rate, most, wait string) *process {
	t.Helper()
	return serve(t, "-c", writeFile(t, "wait.yaml", fmt.Sprintf(
		"wait: {%s}\nrules:\n  - {name: a, rate: %s, burst: 1, strict: true, max_wait: %s}\n", wait, rate, most)))
}

// waited is how many requests of the rule have ended like this.
func (p *process) waited(t *testing.T, outcome string) int {
	t.Helper()
	return int(p.metric(t, `fastlimit_waits_total{outcome="`+outcome+`",rule="a"}`))
}

// inLine is how many wait now.
func (p *process) inLine(t *testing.T) int {
	t.Helper()
	return int(p.metric(t, `fastlimit_waiting{rule="a"}`))
}

// until waits for what must come.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(hang); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not happen: ", what)
		}
	}
}

// guest is one request on a connection of its own, with its answer.
type guest struct {
	conn net.Conn
	code int
	last bool
	at   time.Duration // since the test began to ask
}

// guests opens connections from one address.
func guests(t *testing.T, p *process, n int) []*guest {
	t.Helper()
	var all []*guest
	for range n {
		c, err := net.Dial("tcp", p.listen)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(2 * hang))
		all = append(all, &guest{conn: c})
	}
	return all
}

func (g *guest) ask() { _, _ = io.WriteString(g.conn, request) } // read tells

func (g *guest) read(start time.Time) {
	resp, err := http.ReadResponse(bufio.NewReader(g.conn), nil)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	g.code, g.last, g.at = resp.StatusCode, resp.Close, time.Since(start)
}

// askAtOnce returns when all have their answers.
func askAtOnce(all []*guest) {
	var wg sync.WaitGroup
	start := time.Now()
	for _, g := range all {
		g.ask()
		wg.Go(func() { g.read(start) })
	}
	wg.Wait()
}

// Twenty that ask at once, at 10/s and for at most 2 s, are admitted one by one over two seconds:
// none before its time.
func TestWaitBecomesARamp(t *testing.T) {
	t.Parallel()
	p := serveWaiting(t, "10/s", "2s", "per_key: 20")
	all := guests(t, p, 20)
	askAtOnce(all)
	checkRamp(t, all, 0)
	if n, left := p.waited(t, "admitted"), p.inLine(t); n != 19 || left != 0 {
		t.Errorf("%d have waited, and %d do", n, left)
	}
}

// checkRamp reports guests that were not admitted, or earlier than the leak of 10/s allows,
// by more than slack; the upper bound only has to tell a ramp from no service.
func checkRamp(t *testing.T, all []*guest, slack time.Duration) {
	t.Helper()
	var at []time.Duration
	for i, g := range all {
		if g.code != http.StatusOK {
			t.Errorf("guest %d: status %d", i, g.code)
		}
		at = append(at, g.at)
	}
	slices.Sort(at)
	for k := range at {
		if least := time.Duration(k)*100*time.Millisecond - slack; at[k] < least || at[k] > least+hang/2 {
			t.Errorf("admission %d after %v, want %v", k, at[k], least)
		}
	}
}

// Two nodes that share a Redis admit no more together: those who wait at one do not have the
// units that the other has taken. The store's bucket holds what leaks in its timeout more.
func TestWaitWithRedis(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	file := writeFile(t, "wait.yaml", fmt.Sprintf(
		"redis: {url: %q, timeout: 1s}\nwait: {per_key: 20}\nrules:\n  - {name: a, rate: 10/s, burst: 1, strict: true, max_wait: 20s}\n", "redis://"+r.Addr+"/0"))
	var all []*guest
	for range 2 {
		all = append(all, guests(t, serve(t, "-c", file), 15)...)
	}
	askAtOnce(all)
	checkRamp(t, all, time.Second) // alone each would be done after 1.4 s, this is at 2.9 - 1
}

// First come, first served: those who are known to have come one after the other are admitted
// in that order.
func TestWaitKeepsTheOrder(t *testing.T) {
	t.Parallel()
	p := serveWaiting(t, "2/s", "20s", "per_key: 20")
	all := guests(t, p, 8)
	var wg sync.WaitGroup
	start := time.Now()
	all[0].ask()
	all[0].read(start) // the bucket was empty: there is no line yet
	for i, g := range all[1:] {
		g.ask()
		wg.Go(func() { g.read(start) })
		until(t, "a place", func() bool { return p.inLine(t)+p.waited(t, "admitted") == i+1 })
	}
	wg.Wait()
	for i := 1; i < len(all); i++ {
		if all[i].code != http.StatusOK || all[i].at <= all[i-1].at || all[i].at < time.Duration(i)*500*time.Millisecond {
			t.Errorf("guest %d: %d after %v, the one before after %v", i, all[i].code, all[i].at, all[i-1].at)
		}
	}
}

// Clients that hang up give their places to the next, and lift no limit: nobody is admitted
// earlier than without them.
func TestWaitHangUp(t *testing.T) {
	t.Parallel()
	p := serveWaiting(t, "20/m", "1m", "per_key: 3")
	all := guests(t, p, 6)
	start := time.Now()
	all[0].ask()
	all[0].read(start)
	for _, g := range all[1:4] {
		g.ask()
	}
	until(t, "three in line", func() bool { return p.inLine(t) == 3 })
	all[4].ask()
	if all[4].read(start); all[4].code != http.StatusTooManyRequests || p.waited(t, "refused") != 1 {
		t.Errorf("without a place: %d", all[4].code)
	}
	all[1].conn.Close()
	all[2].conn.Close()
	until(t, "two have left", func() bool { return p.waited(t, "left") == 2 })
	all[5].ask() // has a place now
	until(t, "two in line", func() bool { return p.inLine(t) == 2 })
	all[3].read(start)
	// After 3 s; after 9 s if those who left had kept their places.
	if g := all[3]; g.code != http.StatusOK || g.at < 3*time.Second || g.at >= 9*time.Second {
		t.Errorf("who stayed: %d after %v, want 3 s", g.code, g.at)
	}
	if n := p.waited(t, "admitted"); n != 1 {
		t.Errorf("%d admitted", n)
	}
}

// SIGTERM lets all go who wait: each gets its denial, the connections close, and the process
// ends well before their time.
func TestWaitEndsWithTheServer(t *testing.T) {
	t.Parallel()
	p := serveWaiting(t, "1/m", "1h", "per_key: 60")
	all := guests(t, p, 31)
	var wg sync.WaitGroup
	for _, g := range all {
		g.ask()
		wg.Go(func() { g.read(time.Now()) })
	}
	until(t, "thirty in line", func() bool { return p.inLine(t) == 30 })
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Errorf("exit %d", code)
	}
	wg.Wait()
	denied := 0
	for _, g := range all {
		if g.code == http.StatusTooManyRequests && g.last {
			denied++
		}
	}
	if denied != 30 {
		t.Errorf("%d denied, want 30", denied)
	}
}

// Ten thousand wait over connections of their own, one goroutine each, in the memory that is
// planned for their connections and places; when they hang up nothing is left of them. Not
// parallel: it takes most descriptors.
func TestTenThousandWait(t *testing.T) {
	severalPrograms(t)
	const n, rate = 10_400, 1100 // and one more in 3.3 s for each thousand, while they come
	p := serveWaiting(t, fmt.Sprint(rate, "/h"), "1h", "per_key: 1000, total: 10000")
	type use struct{ goroutines, heap, stack, resident int }
	measure := func() use {
		get(t, http.DefaultClient, "http://"+p.admin+"/debug/pprof/heap?gc=1")
		read := func(name string) int { return int(p.metric(t, name)) }
		return use{read("go_goroutines"), read("go_memstats_heap_alloc_bytes"), read("go_memstats_stack_inuse_bytes"), read("process_resident_memory_bytes")}
	}
	before := measure()
	t.Run("wait", func(t *testing.T) {
		startHold(t, p.listen, "127.0.1.1+", n, request)()
		decided := func() int {
			return p.inLine(t) + p.waited(t, "refused") + p.waited(t, "admitted") + p.waited(t, "denied")
		}
		// The first of each thousand need not wait; a few may have come when their units had leaked.
		until(t, "all are decided or wait", func() bool { return decided() >= n-100 })
		waiting, during := p.inLine(t), measure()
		per := func(all int) int { return all / waiting }
		t.Logf("%d wait: heap %d, stacks %d, resident %d bytes each", waiting, per(during.heap-before.heap), per(during.stack-before.stack), per(during.resident-before.resident))
		if waiting < 9000 {
			t.Errorf("%d wait", waiting)
		}
		if most := before.goroutines + n + 20; during.goroutines > most {
			t.Errorf("%d goroutines, want at most %d", during.goroutines, most)
		}
		if each := per(during.resident - before.resident); each > 24<<10+limit.WaiterBytes {
			t.Errorf("each takes %d bytes", each)
		}
	})
	until(t, "all have left", func() bool { return p.inLine(t) == 0 && p.open(t) == 0 })
	until(t, "their goroutines have ended", func() bool { return measure().goroutines <= before.goroutines+5 })
	if left := p.waited(t, "left"); left < 9000 {
		t.Errorf("%d have left", left)
	}
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Errorf("exit %d", code)
	}
}
