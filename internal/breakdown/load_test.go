package breakdown

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// send has so many requests a second of a client and a path sent for some seconds, and returns
// how many were noted in the last one.
func send(l *Load, now *time.Time, seconds, rate int) (noted int) {
	q := Request{Client: netip.MustParseAddr("192.0.2.7"), Path: []byte("/login"), Method: []byte("POST"), Agent: []byte("curl"), Status: 429, Denied: true}
	for range seconds {
		noted = 0
		for range rate {
			if units := l.Drawn(); units > 0 {
				noted++
				l.Note(&q, units)
			}
		}
		*now = now.Add(time.Second)
		l.Tick(*now)
	}
	return noted
}

// The rate is right within its error, whatever it is, and few requests are noted for it.
func TestLoad(t *testing.T) {
	t.Parallel()
	for _, rate := range []int{1, 100, 1000, 30_000, 1_000_000} {
		now := time.Unix(1000, 0)
		l := NewLoad(now)
		noted := send(l, &now, 12, rate)
		if noted > 2*notesPerSecond || rate <= notesPerSecond && noted != rate {
			t.Errorf("%d/s: %d are noted", rate, noted)
		}
		for by, want := range map[By]string{Net: "192.0.2.7/32", Path: "/login", Method: "POST", Agent: "curl", Status: "429"} {
			all, top := l.Top(by, 3, now)
			if len(top) != 1 || top[0].Group != want || top[0].Share != 1 || top[0].Denied != top[0].Rate || top[0].Rate != all {
				t.Fatalf("%d/s by %v: %v of %v", rate, by, top, all)
			}
			if off := top[0].Rate - float64(rate); max(off, -off) > top[0].Error || rate <= notesPerSecond && off != 0 || top[0].Error > float64(rate)/3 {
				t.Errorf("%d/s by %v: told %.1f ±%.1f", rate, by, top[0].Rate, top[0].Error)
			}
		}
	}
}

// What was long ago is forgotten, and a flood that has ended does not make what comes then
// invisible.
func TestLoadForgets(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	l := NewLoad(now)
	send(l, &now, 3, 500_000)
	send(l, &now, 11, 0)
	if all, top := l.Top(Net, 3, now); all != 0 || len(top) != 0 {
		t.Errorf("11 s after a flood: %v of %v", top, all)
	}
	if noted := send(l, &now, 1, 40); noted != 40 {
		t.Errorf("%d of 40 requests are noted after a flood", noted)
	}
}

// The status of a request on its way is counted later.
func TestAnswered(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	l := NewLoad(now)
	l.Note(&Request{Client: netip.MustParseAddr("192.0.2.7")}, 2)
	if _, top := l.Top(Status, 3, now); len(top) != 0 {
		t.Errorf("before the answer: %v", top)
	}
	l.Answered(502, 2)
	if all, top := l.Top(Status, 3, now); all != 2 || len(top) != 1 || top[0].Group != "502" || top[0].Rate != 2 {
		t.Errorf("%v of %v, want 502 twice", top, all)
	}
	if all, _ := l.Top(Net, 3, now); all != 2 {
		t.Errorf("%v requests, want 2", all)
	}
}

func TestLoadConcurrent(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	l := NewLoad(now)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 5000 {
				if units := l.Drawn(); units > 0 {
					l.Note(&Request{Path: fmt.Appendf(nil, "/%d/%d", i, j), Status: 200}, units)
				}
			}
		})
	}
	all.Go(func() {
		for range 20 {
			l.Top(Path, 10, now)
		}
	})
	all.Wait()
	if total, _ := l.Top(Path, 1, now); total < 10_000 || total > 40_000 {
		t.Errorf("%v of 20000 are counted", total)
	}
}

// What clients send makes no garbage, however they vary it.
func TestNoteDoesNotAllocate(t *testing.T) {
	l := NewLoad(time.Unix(1000, 0))
	q := Request{Path: []byte("/a/b/c"), Method: []byte("GET"), Agent: []byte("x"), Status: 200}
	i := uint32(0)
	if n := testing.AllocsPerRun(2000, func() {
		i++
		q.Client = netip.AddrFrom4([4]byte{byte(i >> 8), byte(i), 1, 1})
		q.Path[1], q.Path[5] = byte(i), byte(i>>8)
		l.Note(&q, 1)
	}); n != 0 {
		t.Errorf("%v allocations per request", n)
	}
}

func BenchmarkDrawn(b *testing.B) {
	l := NewLoad(time.Now())
	for range 20 * notesPerSecond {
		l.grain.Note(1) // makes it rare
	}
	for b.Loop() {
		l.Drawn()
	}
}

func BenchmarkNote(b *testing.B) {
	l := NewLoad(time.Now())
	q := Request{Path: []byte("/a/b/c"), Method: []byte("GET"), Agent: []byte("Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"), Status: 200}
	for i := 0; b.Loop(); i++ {
		q.Client = netip.AddrFrom4([4]byte{byte(i >> 16), byte(i >> 8), byte(i), 1})
		l.Note(&q, 1)
	}
}

func BenchmarkTop(b *testing.B) {
	l := NewLoad(time.Now())
	for i := range 100_000 {
		l.Note(&Request{Client: netip.AddrFrom4([4]byte{byte(i >> 16), byte(i >> 8), byte(i), 1})}, 1)
	}
	for b.Loop() {
		l.Top(Net, 20, time.Now())
	}
}
