package workload

import (
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

const testRequests = 60_000

// TestWorkloads: what holds for every model: the same events for the same
// seed, time that does not run backwards, clients within their number, one
// address space per client, a size near what was asked for, and rates as
// published.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	for _, w := range All() {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			p := Params{Seed: 1, Requests: testRequests}.withDefaults()
			traffic := w.Traffic(p)
			if traffic.Scale <= 0 || traffic.Scale > 1 {
				t.Errorf("scale %v", traffic.Scale)
			}
			events := slices.Collect(traffic.Events())
			if !slices.Equal(events, slices.Collect(traffic.Events())) {
				t.Error("a second run has other events")
			}
			checkOrder(t, traffic, events)
			checkRate(t, w, traffic, events)
			if other := w.Traffic(Params{Seed: 2, Requests: testRequests}); w.Name != "slow-drip" &&
				slices.Equal(events, slices.Collect(other.Events())) {
				t.Error("another seed has the same events")
			}
		})
	}
}

func checkOrder(t *testing.T, traffic Traffic, events []Event) {
	t.Helper()
	owner := map[netip.Prefix]uint32{}
	last := time.Duration(0)
	for _, e := range events {
		if e.At < last || e.At >= traffic.params.Duration || int(e.Client) >= traffic.Clients {
			t.Fatalf("%+v after %v: want at most %v and %d clients", e, last, traffic.params.Duration, traffic.Clients)
		}
		last = e.At
		bits := 32
		if e.Addr.Is6() {
			bits = 64
		}
		prefix, err := e.Addr.Prefix(bits)
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := owner[prefix]; ok && c != e.Client {
			t.Fatalf("clients %d and %d share %v", c, e.Client, prefix)
		}
		owner[prefix] = e.Client
	}
}

// checkRate: the number of requests of clients that are not bystanders is what
// their number and rate give, within 5 standard deviations of a Poisson count.
func checkRate(t *testing.T, w *Workload, traffic Traffic, events []Event) {
	t.Helper()
	p := traffic.params
	active := 0.0
	for _, e := range events {
		if int(e.Client) < traffic.active {
			active++
		}
	}
	want := float64(traffic.active) * w.perClient(p) * p.Duration.Seconds()
	tolerance := 5 * math.Sqrt(want)
	switch w.Name {
	case "pulse-wave": // the last pulse is cut in half by the end
		want -= want * p.Rule.Window().Seconds() / p.Duration.Seconds() / 2
	case "flash-crowd":
		tolerance += want / 100 // whole clients
	}
	if math.Abs(active-want) > tolerance {
		t.Errorf("%v requests of %d clients, want %.0f ± %.0f", active, traffic.active, want, tolerance)
	}
	if rest := float64(len(events)) - active; traffic.Bystanders > 0 &&
		math.Abs(rest-bystanderShare*testRequests) > 0.05*testRequests {
		t.Errorf("%v requests of bystanders, want about %v", rest, bystanderShare*testRequests)
	}
}

// TestPublishedSizes: with room for all requests the models are what was
// published.
func TestPublishedSizes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		workload  string
		clients   int
		perSecond float64
	}{
		{"botnet-2022", 5067, 26.3e6},
		{"botnet-2023", 30_000, 72e6},
		{"swarm-2022", 730_000, 1.022e6},
		{"low-and-slow", 1_200_000, 133.3e3},
	} {
		w, err := Find(c.workload)
		if err != nil {
			t.Fatal(err)
		}
		traffic := w.Traffic(Params{Requests: math.MaxInt})
		if traffic.active != c.clients || traffic.Scale != 1 {
			t.Errorf("%s: %d clients, scale %v", c.workload, traffic.active, traffic.Scale)
		}
		if rate := float64(c.clients) * w.perClient(traffic.params); math.Abs(rate/c.perSecond-1) > 0.01 {
			t.Errorf("%s: %v requests/s, want %v", c.workload, rate, c.perSecond)
		}
	}
}

// TestSlowDripConforms: no two requests of a client are closer than 0.95·r.
func TestSlowDripConforms(t *testing.T) {
	t.Parallel()
	w, _ := Find("slow-drip")
	last := map[uint32]time.Duration{}
	gap := time.Second / 95 // rounded down
	for e := range w.Traffic(Params{Requests: testRequests}).Events() {
		if at, ok := last[e.Client]; ok && e.At-at < gap {
			t.Fatalf("client %d: %v after its last request, want %v or more", e.Client, e.At-at, gap)
		}
		last[e.Client] = e.At
	}
}

// TestPulsesMeetEdges: all requests come within 50 ms of the edge of a window,
// on both sides, and each pulse brings a client more than one burst.
func TestPulsesMeetEdges(t *testing.T) {
	t.Parallel()
	w, _ := Find("pulse-wave")
	traffic := w.Traffic(Params{Requests: testRequests, Duration: 5 * time.Second})
	before, after, pulses := 0, 0, map[time.Duration]int{}
	for e := range traffic.Events() {
		if int(e.Client) >= traffic.active {
			continue
		}
		edge := e.At.Round(2 * time.Second)
		if d := e.At - edge; d < -50*time.Millisecond || d > 50*time.Millisecond {
			t.Fatalf("a request at %v", e.At)
		} else if d < 0 {
			before++
		} else {
			after++
		}
		pulses[edge]++
	}
	if math.Abs(float64(before-after)) > 0.1*float64(before) || len(pulses) != 2 {
		t.Errorf("%d requests before edges, %d after, pulses %v", before, after, pulses)
	}
	for edge, n := range pulses {
		if each := n / traffic.active; each < 380 || each > 420 {
			t.Errorf("%d requests per client at %v, want about 400", each, edge)
		}
	}
}

// TestRotation: one client of rotate-v6 uses many addresses of one /64.
func TestRotation(t *testing.T) {
	t.Parallel()
	w, _ := Find("rotate-v6")
	addrs := map[netip.Addr]bool{}
	for e := range w.Traffic(Params{Requests: testRequests}).Events() {
		if e.Client == 0 {
			addrs[e.Addr] = true
		}
	}
	if len(addrs) < 5000 {
		t.Errorf("%d addresses in 6 s at 1,000/s", len(addrs))
	}
}

func TestFindWorkload(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"zipf-0.3", "zipf-2", "hot-key"} {
		if w, err := Find(name); err != nil || w.Name != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", "zipf-", "zipf-0", "zipf-NaN", "zipf-Inf", "zipf", "botnet"} {
		if _, err := Find(name); err == nil || !strings.Contains(err.Error(), "hot-key") {
			t.Errorf("%q: error %v, want one that lists the names", name, err)
		}
	}
}
