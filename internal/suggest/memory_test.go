package suggest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/replay"
	"github.com/fastlimit/fastlimit/policy"
)

// sources is a log in which every client asks once; one in busy asks 200 times at once.
type sources struct {
	clients, busy int
	at            int
	rest          string
}

func (s *sources) Read(b []byte) (int, error) {
	for s.rest == "" {
		if s.at == s.clients {
			return 0, io.EOF
		}
		line := fmt.Sprintf("10.%d.%d.%d - - [%s] \"GET / HTTP/1.1\" 200 1\n", s.at>>16, s.at>>8&255, s.at&255, start.Add(time.Duration(s.at)*time.Millisecond).Format(wholeSeconds))
		if s.rest = line; s.busy > 0 && s.at%s.busy == 0 {
			s.rest = strings.Repeat(line, 200)
		}
		s.at++
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// The budget counts what a client really takes. Not parallel, as it looks at the memory of
// the process.
func TestMemoryOfAClient(t *testing.T) {
	const n = 1 << 17
	tb := &table{spec: mustKey(t, "ip"), clients: map[string]*arrivals{}}
	col := &collector{tables: []*table{tb}, budget: 1 << 40}
	addrs := rand.New(rand.NewPCG(1, 2))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range n {
		col.key = tb.appendKey(col.key[:0], &policy.Request{Client: clientAddr(int(addrs.Uint32() & 0xffffff))})
		col.key = append(col.key, byte(addrs.Uint32()), byte(addrs.Uint32()), byte(addrs.Uint32())) // so that all differ
		a := new(arrivals)
		tb.clients[string(col.key)] = a
		col.grow(tb, clientBytes+int64(len(col.key)))
		for range 10 {
			before := cap(a.written)
			a.add(a.at + second)
			col.grow(tb, int64(cap(a.written)-before))
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	real := float64(after.HeapAlloc-before.HeapAlloc) / float64(len(tb.clients))
	counted := float64(col.used) / float64(len(tb.clients))
	t.Logf("%.0f bytes for each client, %.0f are counted", real, counted)
	if real > 1.2*counted || real < 0.5*counted {
		t.Errorf("%.0f bytes for each client, %.0f are counted", real, counted)
	}
	runtime.KeepAlive(tb)
}

// Beyond the memory a sample is looked at: about as many clients as fit, of whom the same
// share is busy as of all.
func TestSample(t *testing.T) {
	t.Parallel()
	const clients, busy = 100_000, 50
	c := Config{Keys: []policy.RuleSpec{mustKey(t, "ip")}, Spare: 90 * percent, Memory: 4 << 20}
	r, err := Run(t.Context(), []replay.Log{{Reader: &sources{clients: clients, busy: busy}}}, c)
	if err != nil {
		t.Fatal(err)
	}
	k := &r.Keys[0]
	if k.Sampled != 4 || k.Requests != clients+clients/busy*199 || int64(k.Clients)*clientBytes > c.Memory {
		t.Errorf("1 of %d clients, %d of them, %d requests", k.Sampled, k.Clients, k.Requests)
	}
	within := func(what string, got, want float64) {
		if got < 0.8*want || got > 1.2*want { // the spread of 500 busy clients is 4 %
			t.Errorf("%s: %v, want about %v", what, got, want)
		}
	}
	row := &k.Rows[k.chosen]
	within("clients", float64(k.Clients), clients/4)
	within("share of the clients shed", row.ClientsShare, 1.0/busy)
	within("share of the requests shed", row.RequestsShare, 199.0*(clients/busy)/float64(k.Requests))
	var text strings.Builder
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "--memory has room for only one client in 4") {
		t.Errorf("%v, %s", err, text.String())
	}
	// Two runs look at the same clients.
	again, err := Run(t.Context(), []replay.Log{{Reader: &sources{clients: clients, busy: busy}}}, c)
	if err != nil || again.Config != r.Config || again.Keys[0].Clients != k.Clients {
		t.Errorf("%v, another run:\n%s%s", err, again.Config, r.Config)
	}
	// A budget for no sample is an error that names the knob.
	c.Memory = 100 << 10
	if _, err := Run(t.Context(), []replay.Log{{Reader: &sources{clients: clients}}}, c); err == nil || !strings.Contains(err.Error(), "the log does not fit --memory") {
		t.Errorf("got %v", err)
	}
}

// Of several keys the one with most clients is sampled, the others stay whole.
func TestSampleOfTheLargest(t *testing.T) {
	t.Parallel()
	c := Config{Keys: []policy.RuleSpec{mustKey(t, "global"), mustKey(t, "ip"), mustKey(t, "ip/16/48")}, Spare: hundred, Memory: 2 << 20}
	r, err := Run(t.Context(), []replay.Log{{Reader: &sources{clients: 50_000}}}, c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Keys[0].Sampled != 1 || r.Keys[1].Sampled < 2 || r.Keys[2].Sampled != 1 || r.Keys[0].Counted != 50_000 {
		t.Errorf("one in %d, %d and %d", r.Keys[0].Sampled, r.Keys[1].Sampled, r.Keys[2].Sampled)
	}
}
