package engine

import (
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

func talkerLimiter(tb testing.TB, slots int, rules ...limit.RuleConfig) *Limiter {
	tb.Helper()
	lim, err := New(Config{Rules: rules, TopTalkers: slots, Clock: new(ManualClock)})
	if err != nil {
		tb.Fatal(err)
	}
	return lim
}

// slotOf returns the slot of a client of r.
func slotOf(tb testing.TB, r *Rule, k Key) (s sketch.Slot) {
	tb.Helper()
	if i := r.talkers.Find(k.digest()); i >= 0 {
		r.talkers.Read(i, &s)
	}
	return s
}

// What gets past the filter is counted, admitted or not; what the table denies
// is only noted.
func TestTalkerCounts(t *testing.T) {
	t.Parallel()
	lim := talkerLimiter(t, 64, rule("sketch", 1, time.Hour, 20), rule("theta 0", 1, time.Hour, 5), strictRule("strict", 1, time.Hour, 20))
	for i, want := range []uint64{
		9 + 20, // below θ·B, and the burst; the first passes by the filter
		5,      // likewise, all of them checked
		20,     // no filter
		0,      // never seen
		7,      // a request of more than the burst is denied by reading alone
	} {
		r := lim.rules[min(i, 2)]
		key := r.BytesKey([]byte{byte(i)})
		shed := uint64(0)
		switch i {
		case 3:
		case 4:
			takeAt(r, key, 1<<60, 0)
			takeAt(r, key, 7, 0)
		default:
			for takeAt(r, key, 1, 0).Allowed {
			}
			shed = 1 // by the table
		}
		if s := slotOf(t, r, key); s.Count != want || s.Weight != want || s.Shed != shed {
			t.Errorf("case %d, rule %s: %+v, want a count of %d", i, r.Name(), s, want)
		}
	}
}

// TestTalkerShed: denials by the table are noted as shed, all while there are few,
// and of a flood by chance.
func TestTalkerShed(t *testing.T) {
	t.Parallel()
	lim := talkerLimiter(t, 64, rule("a", 1, time.Hour, 20), rule("b", 1, time.Hour, 20))
	charges := make([]Charge, len(lim.rules))
	for i, r := range lim.rules {
		charges[i] = Charge{Rule: r, Key: r.BytesKey([]byte("x")), Cost: 1}
	}
	before := [2]uint64{}
	flood := func(n int, off float64) {
		for range n {
			takeAllAt(lim, charges, 0)
			takeAt(lim.rules[0], charges[0].Key, 1, 0)
		}
		for i, r := range lim.rules {
			denied := r.Stats().Denied[limit.StageTable]
			s := slotOf(t, r, charges[i].Key)
			if math.Abs(float64(s.Shed)-float64(denied)) > off*float64(denied) {
				t.Errorf("rule %s: %d shed of %d denied", r.Name(), s.Shed, denied)
			}
			before[i] = s.Count
		}
	}
	flood(1000, 0)
	flood(1<<20, 0.1)
	for range 1000 {
		takeAllAt(lim, charges, 0)
		advanceAt(lim, 0)
	}
	for i, r := range lim.rules {
		if s := slotOf(t, r, charges[i].Key); s.Count != before[i] || s.Weight != before[i] {
			t.Errorf("rule %s: denials by the table, or Advance, changed %d to %+v", r.Name(), before[i], s)
		}
	}
}

// TestTalkerNames: a compact name reads as AppendKey writes the key.
func TestTalkerNames(t *testing.T) {
	t.Parallel()
	wide, long := rule("wide", 1, time.Second, 1), rule("long", 1, time.Second, 1)
	wide.IPv4Prefix, wide.IPv6Prefix = 24, 48
	long.IPv6Prefix = 128
	for _, r := range talkerLimiter(t, 4, rule("plain", 1, time.Second, 1), wide, long).rules {
		keys := []Key{r.BytesKey(), r.BytesKey([]byte("")), r.BytesKey([]byte("a"), []byte("b\x00\xff,\"ä")), r.BytesKey([]byte(strings.Repeat("x", 38)))}
		for _, a := range []string{"192.0.2.7", "0.0.0.0", "::", "2001:db8::1", "2001:db8:1:2:3:4:5:6", "::ffff:10.1.2.3"} {
			keys = append(keys, r.AddrKey(netip.MustParseAddr(a)))
		}
		for _, k := range keys {
			var b [sketch.TalkerNameBytes]byte
			name := r.appendName(b[:0], k)
			if got, want := r.nameText(name), string(r.AppendKey(nil, k)); got != want || &name[0] != &b[0] {
				t.Errorf("%s: %q reads %s, want %s", r.Name(), name, got, want)
			}
		}
	}
}

// TestTalkerNamesAreCut: of a name that does not fit the longest parts show their beginning,
// so that what is short, as an address, is whole wherever it stands.
func TestTalkerNamesAreCut(t *testing.T) {
	t.Parallel()
	r := talkerLimiter(t, 4, rule("a", 1, time.Second, 1)).rules[0]
	x := func(n int) []byte { return []byte(strings.Repeat("x", n)) }
	for _, tt := range []struct {
		want  string
		parts [][]byte
	}{
		{string(x(30)) + "…", [][]byte{x(39)}},
		{string(x(30)) + "…", [][]byte{x(4000)}},
		{string(x(21)) + "… xxxxxxxx", [][]byte{x(30), x(8)}},
		{string(x(8)) + " " + string(x(21)) + "…", [][]byte{x(8), x(33)}},
		{string(x(10)) + "… " + string(x(10)) + "…", [][]byte{x(19), x(1000)}},
		{string(x(36)) + " x", [][]byte{x(36), x(1)}},
		{string(x(28)) + "… x", [][]byte{x(37), x(1)}},
		{string(x(29)) + `… ""`, [][]byte{x(38), nil}},
		{"GET " + string(x(24)) + `… a`, [][]byte{[]byte("GET"), x(99), []byte("a")}},
		{"x x" + strings.Repeat(" xxxx…", 6), append([][]byte{x(1), x(1)}, slices.Repeat([][]byte{x(9)}, 6)...)},
		{strings.Repeat("… ", 38) + "…", slices.Repeat([][]byte{x(1)}, 99)},
		{strings.Repeat(`"" `, 38) + "…", make([][]byte, 99)},
	} {
		var b [sketch.TalkerNameBytes]byte
		name := r.appendName(b[:0], r.BytesKey(tt.parts...))
		if got := r.nameText(name); got != tt.want || &name[0] != &b[0] {
			t.Errorf("%q reads %s, want %s", name, got, tt.want)
		}
		_, parts, _ := r.ParseName(name)
		for i, p := range parts {
			if want := r.limiter.Fingerprint(tt.parts[i]); p.Print != nil && [8]byte(p.Print) != want || p.Print == nil && p.Cut && len(parts) < 5 {
				t.Errorf("%s: part %d has the fingerprint %x, want %x", tt.want, i, p.Print, want)
			}
		}
	}
	// As releases before this one cut: the last part, without a mark.
	if got := r.nameText([]byte("c\x03abc\x02de")); got != "abc de…" {
		t.Errorf("an older name reads %s", got)
	}
}

// FuzzTalkerName: names come from peers; whatever they are, the text has no
// character that a terminal would act on.
func FuzzTalkerName(f *testing.F) {
	for _, s := range []string{"", "c", "c\x81a\x01b", "p\x81a", "4", "4\x01\x02\x03\x04", "6\x00\x00\x00\x00\x00\x00\x00\x01", "p\x02ab\x01", "c\x01\x1b", "z\x1b[2J"} {
		f.Add([]byte(s))
	}
	r := talkerLimiter(f, 4, rule("a", 1, time.Second, 1)).rules[0]
	f.Fuzz(func(t *testing.T, name []byte) {
		text := r.nameText(name)
		if text == "" {
			t.Fatalf("%q has no text", name)
		}
		if !utf8.ValidString(text) || strings.ContainsFunc(text, func(c rune) bool { return !strconv.IsPrint(c) }) {
			t.Fatalf("%q reads %q", name, text)
		}
	})
}

func TestTalkerAllocations(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector allocates: counted without it only")
		return
	}
	lim := talkerLimiter(t, 4, rule("a", 100, time.Second, 1000), rule("b", 1, time.Hour, 1000))
	r, ctx := lim.rules[0], t.Context()
	i := uint32(0)
	text := []byte(strings.Repeat("a client's own text ", 10))
	charges, parts := make([]Charge, 2), [][]byte{text}
	for name, f := range map[string]func(){
		"addresses": func() { r.Take(ctx, r.AddrKey(netip.AddrFrom4([4]byte{byte(i % 9), 1, 2, 3})), 2) },
		"text":      func() { text[0] = byte(i % 9); r.Take(ctx, r.BytesKey(text, text), 2) },
		"TakeAll": func() {
			text[0] = byte(i % 9)
			for j, r := range lim.rules {
				charges[j] = Charge{Rule: r, Key: r.BytesKey(parts...), Cost: 2}
			}
			lim.TakeAll(ctx, charges)
		},
		"ChargePeer": func() { r.ChargePeer(uint64(i), 7) },
	} {
		if n := testing.AllocsPerRun(500, func() { i++; f() }); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
	var s sketch.Slot
	if r.talkers.Read(0, &s); s.Gen < 10 {
		t.Errorf("%d takeovers: insertions were not measured", s.Gen)
	}
}
