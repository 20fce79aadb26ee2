package engine

import (
	"context"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// auditAll has a limiter audit all clients for whom there is room, and look at all denials.
func auditAll(l *Limiter) {
	for _, r := range l.rules {
		if r.audit.table != nil {
			r.sampled = math.MaxUint32
			r.audit.table.EveryDenial()
		}
	}
}

// silent fails the test if the audit of a limiter without a fault has found one.
func silent(t *testing.T, l *Limiter) {
	t.Helper()
	for _, r := range l.rules {
		if s := r.Stats().Audit; s.FalseDenials > 0 || s.Excess > 0 {
			t.Errorf("rule %s: %+v", r.Name(), s)
		}
	}
}

// auditTruth is what an audit of one rule should say.
type auditTruth struct {
	requests, suspects uint64
	level, peak        float64
}

// TestAuditIsExact compares what an audit says with an oracle: of traffic as in logs, with
// few busy clients, many quiet ones and bursts, and of clients whose keys all collide.
func TestAuditIsExact(t *testing.T) {
	t.Parallel()
	const clients = 64
	steps := 200_000
	if raceEnabled {
		steps /= 10
	}
	collide := func(rng *rand.Rand, c int) sketch.Digest {
		return sketch.Digest{Pos: uint64(c) * 0x9e3779b1 << 8 & 0xffffff00, ID: rng.Uint64()<<6 | uint64(c)}
	}
	apart := func(rng *rand.Rand, c int) sketch.Digest {
		return sketch.Digest{Pos: rng.Uint64(), ID: rng.Uint64()<<6 | uint64(c)}
	}
	for name, tt := range map[string]struct {
		geo  geometry
		rule limit.RuleConfig
	}{
		"wide":    {geometry{blocks: 1 << 10, sets: 1 << 12, words: 1 << 12, hash: apart}, rule("a", 100, time.Second, 50)},
		"small":   {geometry{blocks: 2, sets: 1 << 12, words: 64, hash: apart}, rule("a", 7, time.Second, 20)},
		"collide": {geometry{blocks: 1, sets: 1 << 12, words: 1, hash: collide}, withTheta(rule("a", 10, time.Second, 20), 0.3)},
		"strict":  {geometry{blocks: 1, sets: 1 << 12, words: 64, hash: apart}, withStrict(rule("a", 10, time.Second, 20))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(5, 6))
			w := newWorld(t, rng, clients, tt.geo, tt.rule)
			auditAll(w.lim)
			want := auditTraffic(w, rng, steps)
			got := w.lim.rules[0].Stats().Audit
			if got.Requests != want.requests || got.FalseSuspects != want.suspects || got.FalseDenials != 0 || got.Excess != 0 || got.Clients > clients {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if math.Abs(got.Level-want.level) > float64(steps)/1000 || math.Abs(got.Peak-want.peak) > 1e-9 || got.Estimated < got.Level*0.999 { // it lacks what is first seen
				t.Errorf("got %+v, want %+v", got, want)
			}
			if !tt.rule.Strict && (got.FalseSuspects > 0) == (name == "wide") {
				t.Errorf("%d false suspects", got.FalseSuspects)
			}
		})
	}
}

// auditTraffic sends requests of one unit or a few to the only rule of w. Busy clients exceed it.
func auditTraffic(w *world, rng *rand.Rand, steps int) (want auditTruth) {
	r, zipf := w.lim.rules[0], rand.NewZipf(rng, 1.3, 1, uint64(len(w.digests)-1))
	shape := &r.buckets.Shape
	drain := shape.Duration(2*(shape.Limit()+shape.Grace()) + shape.Unit())
	bound := float64(r.threshold+shape.Limit()+shape.Grace()) / float64(shape.Unit())
	if r.filter != nil {
		bound++
	}
	first := make([]time.Duration, len(w.digests))
	var now time.Duration
	for range steps {
		now += time.Duration(rng.Int64N(int64(shape.Duration(shape.Unit())/4/time.Microsecond)+1)) * time.Microsecond
		if rng.IntN(2000) == 0 {
			now += time.Duration(rng.Int64N(int64(4*drain))) / 1000 * 1000
		}
		c, n := int(zipf.Uint64()), uint64(1)
		if rng.IntN(10) == 0 {
			n += rng.Uint64N(4)
		}
		o := w.truth[c][0]
		o.At(now)
		level := float64(o.Level) / float64(o.Per)
		v := r.take(context.Background(), rawKey(r, w.digests[c][0]), n, setTime(w.lim, now), 0)
		want.requests++
		screened := v.Stage == limit.StageSketch || v.Stage == limit.StageExact
		if first[c] == 0 && v.Stage != limit.StageTable {
			first[c] = now
		}
		if screened && r.sketch != nil && now >= first[c]+drain {
			want.level += level + float64(n)
			if v.Stage == limit.StageExact && level+float64(n) < float64(r.threshold)/float64(shape.Unit()) {
				want.suspects++
			}
		}
		if v.Allowed {
			o.Admit(n)
			want.peak = max(want.peak, (level+float64(n))/bound)
		}
	}
	return want
}

// loseUpdates wipes the sketch from time to time.
func loseUpdates(r *Rule, _ sketch.Digest, rng *rand.Rand) {
	if rng.IntN(10_000) == 0 {
		if err := r.sketch.Init(max(1, r.plan().Blocks), r.plan().SketchLimit()); err != nil {
			panic(err)
		}
	}
}

// forget empties buckets.
func forget(r *Rule, d sketch.Digest, rng *rand.Rand) {
	if rng.IntN(10) == 0 {
		r.buckets.Table.Reset(d)
	}
}

// chargeAnother charges somebody else too.
func chargeAnother(r *Rule, _ sketch.Digest, rng *rand.Rand) {
	other := r.AddrKey(netip.AddrFrom4([4]byte{10, 0, byte(rng.IntN(20_000) >> 8), byte(rng.IntN(256))})).digest()
	r.buckets.Table.Take(other, r.buckets.Ticks(r.time()), r.buckets.Shape.Cost(2))
}

// TestAuditReportsFaults has limiters with a fault serve a flood and 20,000 clients within their
// limit. An audit of 1 in 1024 reports it within a minute.
func TestAuditReportsFaults(t *testing.T) {
	t.Parallel()
	const clients = 20_000
	for name, tt := range map[string]struct {
		strict bool
		fault  func(r *Rule, d sketch.Digest, rng *rand.Rand)
		found  func(s limit.AuditStats) uint64
	}{
		"sound":                        {fault: func(*Rule, sketch.Digest, *rand.Rand) {}, found: func(limit.AuditStats) uint64 { return 1 }},
		"a sketch that loses updates":  {fault: loseUpdates, found: func(s limit.AuditStats) uint64 { return s.Excess }},
		"a table that forgets":         {true, forget, func(s limit.AuditStats) uint64 { return s.Excess }},
		"a table that charges another": {true, chargeAnother, func(s limit.AuditStats) uint64 { return s.FalseDenials }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(8, 8))
			c := rule("a", 10, time.Second, 20)
			c.Strict = tt.strict
			l, err := New(Config{Rules: []limit.RuleConfig{c}, Clock: new(ManualClock), Secret: [32]byte{1}, Memory: limit.MinMemory})
			if err != nil {
				t.Fatal(err)
			}
			r := l.rules[0]
			reported := time.Duration(0)
			for now := time.Duration(0); now < time.Minute && reported == 0; now += 100 * time.Millisecond {
				setTime(l, now)
				for i := range clients { // most at half their rate, some at twice
					flood := i%64 == 0
					if !flood && i%2 != int(now/(100*time.Millisecond))%2 {
						continue
					}
					key, n := r.AddrKey(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})), uint64(1)
					if flood {
						n = 2
					}
					r.take(t.Context(), key, n, now, 0)
					tt.fault(r, key.digest(), rng)
				}
				s := r.Stats().Audit
				if name == "sound" {
					silent(t, l)
					if now > 50*time.Second || raceEnabled && now > time.Second {
						reported = now
					}
				} else if tt.found(s) > 0 {
					reported = now + 1
				}
			}
			if t.Logf("reported after %v: %+v", reported, r.Stats().Audit); reported == 0 {
				t.Error("not reported within a minute")
			}
		})
	}
}

// What others add to a bucket is not held against the limiter: a merge, and what a replaced limiter
// reconciles.
func TestAuditOfWhatOthersCharge(t *testing.T) {
	t.Parallel()
	limiter := func() *Limiter {
		l, err := New(Config{Rules: []limit.RuleConfig{withStrict(rule("a", 1, time.Minute, 20))}, Clock: new(ManualClock), Secret: [32]byte{1}, Memory: limit.MinMemory})
		if err != nil {
			t.Fatal(err)
		}
		auditAll(l)
		return l
	}
	l, other := limiter(), limiter()
	r, key := l.rules[0], l.rules[0].BytesKey([]byte("x"))
	r.Take(t.Context(), key, 1)
	other.rules[0].Take(t.Context(), other.rules[0].BytesKey([]byte("x")), 20)
	if err := l.Merge(other); err != nil {
		t.Fatal(err)
	}
	for _, now := range []time.Duration{0, time.Second, 20 * time.Second} {
		setTime(l, now)
		if r.Take(t.Context(), key, 1).Allowed {
			t.Error("a merge has changed nothing")
		}
	}
	silent(t, l)

	setTime(l, time.Hour)
	next := mustWith(t, l, Config{Rules: []limit.RuleConfig{withStrict(rule("a", 1, time.Hour, 10))}, Memory: limit.MinMemory})
	auditAll(next)
	n := next.rules[0]
	n.Take(t.Context(), key, 1)
	r.Take(t.Context(), key, 9)
	setTime(l, time.Hour+20*time.Second)
	if n.Take(t.Context(), key, 1).Allowed {
		t.Error("what the limiter before admits does not count")
	}
	r.Reset(key)
	n.Take(t.Context(), key, 10)
	silent(t, next)
}

// BenchmarkHotAudited is a client far over its limit that is audited, and one that is not. Run it with
// -cpu 2.
func BenchmarkHotAudited(b *testing.B) {
	for name, sampled := range map[string]uint32{"audited": math.MaxUint32, "not": 0} {
		b.Run(name, func(b *testing.B) {
			l := mustNew(b, rule("a", 100, time.Second, 200))
			r := l.rules[0]
			r.sampled = sampled
			hot := netip.AddrFrom4([4]byte{192, 0, 2, 7})
			for range 1000 {
				r.Take(b.Context(), r.AddrKey(hot), 1)
			}
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if r.Take(b.Context(), r.AddrKey(hot), 1).Allowed {
						b.Error("admitted")
					}
				}
			})
		})
	}
}
