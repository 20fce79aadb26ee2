package engine

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/limit"
)

func TestTakePeekRefundReset(t *testing.T) {
	t.Parallel()
	lim := mustNew(t, strictRule("a", 10, time.Second, 4))
	r := lim.rules[0]
	key := r.BytesKey([]byte("x"))
	if d := peekAt(r, key, 4, 0); !d.Allowed || d.Remaining != 4 {
		t.Errorf("peek of an empty bucket: %+v", d)
	}
	d := takeAt(r, key, 3, 0)
	if !d.Allowed || d.Stage != limit.StageExact || d.Remaining != 1 || d.TimeToEmpty != 300*time.Millisecond {
		t.Errorf("take 3 of 4: %+v", d)
	}
	for range 2 { // a denial takes nothing
		d = takeAt(r, key, 2, 0)
		if d.Allowed || d.Stage != limit.StageTable || d.Remaining != 1 || d.RetryAfter != 100*time.Millisecond {
			t.Errorf("take 2 more: %+v", d)
		}
	}
	if d = peekAt(r, key, 2, 0); d.Allowed {
		t.Errorf("peek 2 more: %+v", d)
	}
	if d = takeAt(r, key, 0, 0); !d.Allowed || d.Remaining != 1 {
		t.Errorf("take 0: %+v", d)
	}
	if d = takeAt(r, key, 2, 100*time.Millisecond); !d.Allowed {
		t.Errorf("take 2 after RetryAfter: %+v", d)
	}
	if d = takeAt(r, key, 5, time.Hour); d.Allowed || d.RetryAfter != bucket.Never {
		t.Errorf("take more than the burst: %+v", d)
	}
}

func TestRefundAndReset(t *testing.T) {
	t.Parallel()
	lim := mustNew(t, strictRule("a", 1, 24*time.Hour, 3))
	r, ctx := lim.rules[0], t.Context()
	key := r.BytesKey([]byte("x"))
	r.Take(ctx, key, 3)
	if r.Allow(key) {
		t.Fatal("a full bucket admitted")
	}
	r.Refund(key, 1)
	if !r.Allow(key) || r.Allow(key) {
		t.Error("a refund of 1 must make room for exactly 1")
	}
	r.Reset(key)
	if d := r.Take(ctx, key, 3); !d.Allowed {
		t.Errorf("after reset: %+v", d)
	}
}

func TestStagesOfOneClient(t *testing.T) {
	t.Parallel()
	lim := mustNew(t, rule("a", 1, time.Second, 20)) // θ 0.5: checked from the tenth unit on
	r := lim.rules[0]
	key := r.BytesKey([]byte("x"))
	var got []string
	for range 31 {
		d := takeAt(r, key, 1, 0)
		if s := d.Stage.String(); len(got) == 0 || got[len(got)-1] != s {
			got = append(got, s)
		}
		if (d.Stage == limit.StageFilter || d.Stage == limit.StageSketch) && d.Remaining != limit.RemainingUnknown {
			t.Errorf("%v shows %d remaining: estimates are not shown", d.Stage, d.Remaining)
		}
	}
	if want := "filter sketch exact table"; strings.Join(got, " ") != want {
		t.Errorf("stages %q, want %q", got, want)
	}
	s := r.Stats()
	if s.Allowed != [stageCount]uint64{limit.StageFilter: 1, limit.StageSketch: 9, limit.StageExact: 20} || s.Denied != [stageCount]uint64{limit.StageTable: 1} {
		t.Errorf("counted %v allowed, %v denied", s.Allowed, s.Denied)
	}
}

func TestAddrKeys(t *testing.T) {
	t.Parallel()
	wide := rule("wide", 1, time.Second, 1)
	wide.IPv4Prefix, wide.IPv6Prefix = 24, 48
	long := rule("long", 1, time.Second, 1)
	long.IPv6Prefix = 128
	lim := mustNew(t, rule("plain", 1, time.Second, 1), wide, long)
	tests := []struct {
		rule, a, b string
		same       bool
		text       string // of a
	}{
		{"plain", "192.0.2.7", "::ffff:192.0.2.7", true, "192.0.2.7"},
		{"plain", "192.0.2.7", "192.0.2.8", false, "192.0.2.7"},
		{"plain", "2001:db8::1", "2001:db8::ffff:0:0:1", true, "2001:db8::/64"},
		{"plain", "2001:db8::1", "2001:db8:0:1::1", false, "2001:db8::/64"},
		{"plain", "fe80::1%eth0", "fe80::1", true, "fe80::/64"},
		{"wide", "192.0.2.7", "192.0.2.200", true, "192.0.2.0/24"},
		{"wide", "2001:db8:7::1", "2001:db8:7:9::1", true, "2001:db8:7::/48"},
		{"long", "2001:db8::1", "2001:db8::2", false, "2001:db8::1"},
	}
	for _, tt := range tests {
		r, ok := lim.Rule(tt.rule)
		if !ok {
			t.Fatalf("no rule %s", tt.rule)
		}
		a, b := netip.MustParseAddr(tt.a), netip.MustParseAddr(tt.b)
		if same := r.AddrKey(a) == r.AddrKey(b); same != tt.same {
			t.Errorf("%s: %s and %s: same client %v, want %v", tt.rule, a, b, same, tt.same)
		}
		if got := string(r.AppendKey(nil, r.AddrKey(a))); got != tt.text {
			t.Errorf("%s: name of %s: %s, want %s", tt.rule, a, got, tt.text)
		}
	}
}

func TestBytesKeys(t *testing.T) {
	t.Parallel()
	r := mustNew(t, rule("a", 1, time.Second, 1)).rules[0]
	join := func(parts ...string) Key {
		var bs [][]byte
		for _, p := range parts {
			bs = append(bs, []byte(p))
		}
		return r.BytesKey(bs...)
	}
	names, digests := map[string]bool{}, map[any]bool{}
	for _, parts := range [][]string{{"a", "bc"}, {"ab", "c"}, {"abc"}, {"abc", ""}, {"", "abc"}, {"a", "b", "c"}, {`a","b`}, {"a,b"}, {"\x00"}, {}} {
		k := join(parts...)
		names[string(r.AppendKey(nil, k))], digests[k.digest()] = true, true
	}
	if len(names) != 10 || len(digests) != 10 {
		t.Errorf("10 different keys have %d names and %d digests", len(names), len(digests))
	}
	if join("x", "y").digest() != join("x", "y").digest() {
		t.Error("the same parts have two digests")
	}
}

// TestFingerprint: it is of the text and the secret, and stays over a change of the rules.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	lim, other := mustNew(t, rule("a", 1, time.Second, 1)), mustNew(t, rule("a", 1, time.Second, 1))
	next, err := lim.With(Config{Rules: []limit.RuleConfig{rule("b", 1, time.Second, 1)}, Clock: lim.manual})
	if err != nil {
		t.Fatal(err)
	}
	of := func(l *Limiter, text string) [8]byte { return l.Fingerprint([]byte(text)) }
	if of(lim, "x") != of(next, "x") {
		t.Error("another fingerprint after a reload")
	}
	if of(lim, "x") == of(other, "x") || of(lim, "x") == of(lim, "y") || of(lim, "") == ([8]byte{}) {
		t.Error("what differs has one fingerprint")
	}
}

func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector allocates: counted without it only")
		return
	}
	lim := mustNew(t, rule("a", 1, time.Second, 20), rule("b", 1, time.Second, 2), strictRule("c", 1, time.Second, 100))
	a, ctx := lim.rules[0], t.Context()
	addr := netip.MustParseAddr("2001:db8::1")
	text := []byte("a client's own text, longer than a word or two")
	charges := make([]Charge, 3)
	for name, f := range map[string]func(){
		"Take":     func() { a.Take(ctx, a.AddrKey(addr), 1) },
		"Allow":    func() { a.Allow(a.AddrKey(addr)) },
		"Peek":     func() { a.Peek(a.AddrKey(addr), 1) },
		"BytesKey": func() { a.Take(ctx, a.BytesKey(text, text), 1) },
		"TakeAll": func() {
			for i, r := range lim.rules {
				charges[i] = Charge{Rule: r, Key: r.AddrKey(addr), Cost: 1}
			}
			lim.TakeAll(ctx, charges)
		},
	} {
		if n := testing.AllocsPerRun(200, f); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

// A client that was only peeked at is still new to the filter.
func TestPeekMarksNobody(t *testing.T) {
	t.Parallel()
	r := mustNew(t, rule("a", 100, time.Second, 10)).rules[0]
	key := r.BytesKey([]byte("x"))
	for range 2 {
		if d := r.Peek(key, 1); d.Stage != limit.StageFilter {
			t.Errorf("peeked at: %+v", d)
		}
	}
	if d := r.Take(t.Context(), key, 1); d.Stage != limit.StageFilter {
		t.Errorf("not first seen after a peek: %+v", d)
	}
}
