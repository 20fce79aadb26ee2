package ban

import (
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/fastlimit/fastlimit/sketch"
)

// ban bans d at now.
func (t *Table) banNow(p *Policy, d sketch.Digest, now time.Duration) bool {
	for range p.After {
		if t.Deny(p, d, now) {
			_, _, begun := t.Begin(p, d, now, nil)
			return begun
		}
	}
	return false
}

// memory is what the table takes.
func (t *Table) memory() int {
	return len(t.marks)*8 + len(t.front)*int(unsafe.Sizeof(record{})) + len(t.backs)*int(unsafe.Sizeof(back{})) + len(t.locks)*stripeBytes
}

// A table holds as many bans as it says, but for a few in a thousand, at 200 bytes each.
func TestHolds(t *testing.T) {
	t.Parallel()
	p := mustPolicy(Policy{After: 2, For: time.Hour})
	for _, n := range []int{1000, 100_000} {
		tb, r, refused := New(n, p.Within), rand.New(rand.NewPCG(uint64(n), 3)), 0
		if m := tb.memory(); m > 200*n+stripeBytes || int64(m) > Bytes(n) || Size(Bytes(n)) < n {
			t.Errorf("%d bans: %d bytes, planned %d for %d", n, m, Bytes(n), Size(Bytes(n)))
		}
		for range n {
			if !tb.banNow(&p, randomDigest(r), 0) {
				refused++
			}
		}
		s := tb.Stats(0)
		t.Logf("%d bans: %d bytes each, %d refused", n, tb.memory()/n, refused)
		if refused > n/1000+3 || s.Begun != uint64(n-refused) || s.Running != n-refused {
			t.Errorf("%d refused of %d: %+v", refused, n, s)
		}
	}
}

// A table that is full of bans refuses others and counts them; none ends before its time,
// whoever else is denied, and there is room again when they have ended.
func TestFull(t *testing.T) {
	t.Parallel()
	p := mustPolicy(Policy{After: 3, For: time.Hour})
	tb, r := newTable(2, p.Within), rand.New(rand.NewPCG(1, 1))
	var banned []sketch.Digest
	for range 10_000 {
		if d := randomDigest(r); tb.banNow(&p, d, 0) {
			banned = append(banned, d)
		}
	}
	s := tb.Stats(0)
	if len(banned) != 2*most || s.Full == 0 || s.Running != 2*most {
		t.Errorf("%d banned, %+v", len(banned), s)
	}
	if tb.Impose(&p, randomDigest(r), 0, time.Hour, 1, nil) > 0 {
		t.Error("another node's ban found room")
	}
	for _, d := range banned {
		if end, ok := tb.Banned(d, time.Hour-1); !ok || end != time.Hour {
			t.Fatalf("ends at %v", end)
		}
	}
	for range 100 {
		if d := randomDigest(r); tb.banNow(&p, d, time.Hour) {
			return
		}
	}
	t.Error("no room after their end")
}

// A flood of 10^6 clients that are denied once or twice does not keep those from being banned
// that are denied often: each of 100 is banned before it was denied three times as often as it
// takes, in a table for 4,000 bans.
func TestFloodOfSuspects(t *testing.T) {
	t.Parallel()
	p := mustPolicy(Policy{After: 50, For: time.Hour})
	tb, r := New(4000, p.Within), rand.New(rand.NewPCG(5, 6))
	heavy := make([]sketch.Digest, 100)
	denials := make([]int, len(heavy))
	for i := range heavy {
		heavy[i] = randomDigest(r)
	}
	var last sketch.Digest
	for n := range 1_000_000 {
		now := time.Duration(n) * 10 * time.Microsecond // 100,000 a second
		d := randomDigest(r)
		if n%3 == 0 {
			d = last
		}
		last = d
		if tb.Deny(&p, d, now) {
			t.Fatal("a client that was denied twice is to be banned")
		}
		i := n % (len(heavy) * 10) // each 100 times a second
		if i >= len(heavy) {
			continue
		}
		if _, banned := tb.Banned(heavy[i], now); banned {
			continue
		}
		if denials[i]++; tb.Deny(&p, heavy[i], now) {
			tb.Begin(&p, heavy[i], now, nil)
		}
	}
	worst := 0
	for i, d := range heavy {
		worst = max(worst, denials[i])
		if _, banned := tb.Banned(d, 10*time.Second); !banned {
			t.Errorf("client %d: %d denials and no ban", i, denials[i])
		}
	}
	t.Logf("banned after %d denials at most; %d of the flood's were not counted", worst, tb.Stats(0).Passed)
	if worst > 3*p.After {
		t.Errorf("%d denials before a ban", worst)
	}
}

// What a denial and a look cost, and a ban.
func BenchmarkTable(b *testing.B) {
	p := mustPolicy(Policy{After: 10_000, For: time.Hour})
	one := mustPolicy(Policy{After: 1, For: time.Hour})
	r := rand.New(rand.NewPCG(5, 6))
	digests := make([]sketch.Digest, 100_000)
	for i := range digests {
		digests[i] = randomDigest(r)
	}
	b.Run("denied", func(b *testing.B) {
		tb := New(100_000, p.Within)
		for i := 0; b.Loop(); i++ {
			if tb.Deny(&p, digests[0], time.Duration(i)*time.Millisecond*2) {
				b.Fatal("banned")
			}
		}
	})
	b.Run("denied, once each", func(b *testing.B) {
		tb, i := New(1000, p.Within), uint64(0)
		for b.Loop() {
			i++
			tb.Deny(&p, sketch.Digest{Pos: i * 0x9e3779b97f4a7c15, ID: i * 0xd1342543de82ef95}, time.Duration(i)*10*time.Microsecond)
		}
	})
	b.Run("banned", func(b *testing.B) {
		tb := New(100_000, p.Within)
		for _, d := range digests {
			tb.banNow(&one, d, 0)
		}
		for i := 0; b.Loop(); i++ {
			if _, ok := tb.Banned(digests[i%64], 0); !ok {
				b.Fatal("not banned")
			}
		}
	})
	b.Run("not banned among 10^5", func(b *testing.B) {
		tb, i := New(100_000, p.Within), uint64(0)
		for _, d := range digests {
			tb.banNow(&one, d, 0)
		}
		for b.Loop() {
			i++
			tb.Banned(sketch.Digest{Pos: i * 0x9e3779b97f4a7c15, ID: i * 0xd1342543de82ef95}, 0)
		}
	})
	b.Run("10^5 bans", func(b *testing.B) {
		for b.Loop() {
			tb := New(100_000, p.Within)
			for _, d := range digests {
				tb.banNow(&one, d, 0)
			}
		}
	})
}
