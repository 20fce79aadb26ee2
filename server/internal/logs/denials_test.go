package logs

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

// Two that meet at the last line do not both get one.
func TestTheLastDenialLine(t *testing.T) {
	t.Parallel()
	d := NewDenials(1)
	for i := range 3 {
		addr := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
		d.Add(uint32(i), addr, func() Denial { return Denial{Client: addr} }) // all had been told that there is one
	}
	if lines, counts, others := d.next(3); len(lines) != 1 || counts[0] != 1 || others != 2 {
		t.Errorf("%v %v, %d others", lines, counts, others)
	}
}

// Under -race: many clients are denied while the seconds end; every denial is
// on a line or among the others.
func TestDenialLogAddsUp(t *testing.T) {
	t.Parallel()
	d := NewDenials(20)
	const workers, rounds = 8, 5000
	var onLines, others uint64
	end := func(total uint64) {
		_, counts, rest := d.next(total)
		onLines, others = onLines+sum(counts), others+rest
		if rest > workers*rounds {
			t.Errorf("%d others of %d", rest, workers*rounds)
		}
	}
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range rounds {
				addr := netip.AddrFrom4([4]byte{192, 0, 2, byte(i % 30)})
				if !d.Count(uint32(w), addr) {
					d.Add(uint32(w), addr, func() Denial { return Denial{Client: addr} })
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
			end(0) // counts only what is on lines
		}
	}
	end(workers * rounds)
	if got := onLines + others; got != workers*rounds {
		t.Errorf("%d on lines and %d others, of %d", onLines, others, workers*rounds)
	}
}

// Slots of a second that is over are free, and their lines nobody's.
func TestDenialLogForgetsTheLastSecond(t *testing.T) {
	t.Parallel()
	d := NewDenials(100)
	total := uint64(0)
	deny := func(addr netip.Addr) {
		total++
		if !d.Count(3, addr) {
			d.Add(3, addr, func() Denial { return Denial{Client: addr} })
		}
	}
	for second := range 300 {
		for i := range 100 {
			for range i%3 + 1 {
				deny(netip.AddrFrom4([4]byte{byte(second), byte(second >> 8), 1, byte(i)}))
			}
		}
		lines, counts, others := d.next(total)
		if len(lines) != 100 || others != 0 {
			t.Fatalf("second %d: %d lines, %d others", second, len(lines), others)
		}
		for i, n := range counts {
			if n != uint64(i%3+1) || lines[i].Client.As4()[3] != byte(i) {
				t.Fatalf("second %d: line %d of %v has %d", second, i, lines[i].Client, n)
			}
		}
	}
}

func TestSeconds(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]float64{0: 0, 1: 0.001, time.Millisecond: 0.001, time.Millisecond + 1: 0.002, time.Second: 1, -1: 0, 90 * time.Minute: 5400} {
		if got := seconds(d); got != want {
			t.Errorf("%v: %v", d, got)
		}
	}
}

// BenchmarkDenialLog is what the log costs a denial: of a client with a line,
// and of one for whom none is left.
func BenchmarkDenialLog(b *testing.B) {
	d := NewDenials(MaxDenialLines)
	for i := range MaxDenialLines {
		addr := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
		d.Add(1, addr, func() Denial { return Denial{Client: addr} })
	}
	for name, addr := range map[string]netip.Addr{"line": netip.AddrFrom4([4]byte{192, 0, 2, 1}), "none": netip.AddrFrom4([4]byte{198, 51, 100, 1})} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !d.Count(1, addr) {
					b.Fatal("no line")
				}
			}
		})
	}
}

func sum(all []uint64) (n uint64) {
	for _, v := range all {
		n += v
	}
	return n
}

// A bad request that is noted before it is counted is one all the same.
func TestBadRequestThatIsNotCountedYet(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	var bad Bad
	host := &Reason{Name: "host", Status: 400}
	bad.Note(host, netip.Addr{}, nil)
	bad.EndSecond([]*Reason{host}, slog.New(slog.NewTextHandler(&out, nil)))
	if !strings.Contains(out.String(), `peer="" reason=host status=400 count=1`) {
		t.Errorf("got %s", out.String())
	}
}
