package redisstore

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/memstore"
	"github.com/fastlimit/fastlimit/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// A lab runs scripts on chosen states at chosen times and compares with the
// model.
type lab struct {
	t      testing.TB
	client *redis.Client
}

func newLab(t testing.TB) *lab {
	t.Helper()
	server := redistest.Start(t)
	c := redis.NewClient(&redis.Options{Addr: server.Addr, Protocol: 2, MaxRetries: -1, ReadTimeout: time.Minute})
	t.Cleanup(func() { _ = c.Close() })
	for _, s := range clocked {
		if err := c.ScriptLoad(t.Context(), s.source).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return &lab{t: t, client: c}
}

// trial is one step: a stored value, the time, the operation.
type trial struct {
	value string // empty: no key
	now   uint64
	op    bucket.Op
}

// run compares all trials, each on a key of its own, in one pipeline.
func (l *lab) run(trials []trial) {
	l.t.Helper()
	ctx := context.Background()
	pipe := l.client.Pipeline()
	pipe.FlushAll(ctx)
	replies := make([]*redis.IntSliceCmd, len(trials))
	values := make([]*redis.StringCmd, len(trials))
	ttls := make([]*redis.DurationCmd, len(trials))
	for i := range trials {
		tr := &trials[i]
		key := "k" + string(rune('0'+i%10)) + string(rune('a'+i/10%26)) + string(rune('A'+i/260))
		if tr.value != "" {
			pipe.Set(ctx, key, tr.value, 0)
		}
		args, _ := clocked.appendArgs(nil, nil, key, &tr.op, []any{tr.now / 1_000_000, tr.now % 1_000_000})
		replies[i] = redis.NewIntSliceCmd(ctx, args...)
		_ = pipe.Process(ctx, replies[i])
		values[i] = pipe.Get(ctx, key)
		ttls[i] = pipe.PTTL(ctx, key)
	}
	if _, err := pipe.Exec(ctx); err != nil && !isReply(err) {
		l.t.Fatal(err)
	}
	for i := range trials {
		l.compare(&trials[i], replies[i], values[i], ttls[i])
	}
}

func isReply(err error) bool { _, ok := err.(redis.Error); return ok } //nolint:errorlint // as is

func (l *lab) compare(tr *trial, reply *redis.IntSliceCmd, value *redis.StringCmd, ttl *redis.DurationCmd) {
	l.t.Helper()
	state, ok := memstore.ParseState(tr.value)
	if tr.value != "" && !ok && tr.op.Kind != bucket.EmptyOut {
		if Classify(reply.Err()) != Corrupt || value.Val() != tr.value {
			l.t.Fatalf("%+v: %v, value then %q; want corrupt, value as before", *tr, reply, value.Val())
		}
		return
	}
	after, want := memstore.Step(state, tr.now, memstore.NewRequest(&tr.op))
	wantValue := after.String()
	if after == (memstore.State{}) {
		wantValue = ""
	}
	if !want.Write {
		wantValue = tr.value
	}
	v := reply.Val()
	if reply.Err() != nil || len(v) != 3 || v[0] != int64(want.Granted) || v[1] != int64(want.Level) || v[2] != int64(tr.now) {
		l.t.Fatalf("%+v: %v, want %+v", *tr, reply, want)
	}
	expired := value.Val() == "" && want.TTL > 0 && want.TTL < time.Minute.Milliseconds()
	if value.Val() != wantValue && !expired {
		l.t.Fatalf("%+v: stored %q, want %q", *tr, value.Val(), wantValue)
	}
	// The time to live runs by the real clock.
	if want.TTL > 0 && !expired && (ttl.Val() > time.Duration(want.TTL)*time.Millisecond || ttl.Val() < time.Duration(want.TTL)*time.Millisecond-time.Minute) {
		l.t.Fatalf("%+v: PTTL %v, want %d ms", *tr, ttl.Val(), want.TTL)
	}
}

// randomShape covers the allowed rates, from 1/d to 10^9/s, up to the largest
// burst that Lua can keep.
func randomShape(rng *rand.Rand) bucket.Shape {
	periods := []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, 15 * time.Minute, 7 * time.Second}
	for {
		n := 1 + rng.Uint64N(1<<(1+rng.UintN(30)))
		s, err := bucket.NewShape(n, periods[rng.IntN(len(periods))], 1+rng.Uint64N(1<<rng.UintN(40)))
		if err == nil && s.Portable() {
			return s
		}
	}
}

// near is a number around one that matters.
func near(rng *rand.Rand, n uint64) uint64 {
	switch rng.IntN(6) {
	case 0:
		return rng.Uint64N(n + 1)
	case 1:
		return n - min(n, rng.Uint64N(3))
	default:
		return n + rng.Uint64N(3)
	}
}

func randomTrial(rng *rand.Rand) trial {
	s := randomShape(rng)
	limit := s.Limit() + s.Grace()
	op := bucket.Op{
		Kind: bucket.Kind(rng.IntN(kinds)), Shape: s,
		Cost: near(rng, s.Unit()), Count: 1 + rng.Uint64N(1<<rng.UintN(50)),
	}
	switch rng.IntN(8) {
	case 0:
		op.Cost = near(rng, limit)
	case 1:
		op.Cost = rng.Uint64() >> rng.UintN(64)
	case 2:
		op.Cost = near(rng, limit/(1+rng.Uint64N(100)))
	}
	if rng.IntN(3) == 0 {
		op.Floor = rng.Uint64() >> rng.UintN(64)
	}
	tr := trial{now: 1_763_596_800_000_000 + rng.Uint64N(1<<40), op: op}
	if rng.IntN(8) == 0 {
		return tr
	}
	st := memstore.State{Level: near(rng, limit), Unit: s.Unit()}
	switch rng.IntN(6) {
	case 0:
		st.Level = rng.Uint64() >> (11 + rng.UintN(53))
	case 1:
		other := randomShape(rng)
		st.Unit = other.Unit()
	}
	age := near(rng, st.Level/s.PerMicro())
	switch rng.IntN(6) {
	case 0:
		age = rng.Uint64N(tr.now)
	case 1:
		age = 0
	}
	st.Last = tr.now - min(tr.now, age)
	if rng.IntN(8) == 0 {
		st.Last = tr.now + rng.Uint64N(1<<40) // the clock has stepped back
	}
	tr.value = st.String()
	if rng.IntN(50) == 0 {
		tr.value = corrupt(rng, tr.value)
	}
	return tr
}

func corrupt(rng *rand.Rand, v string) string {
	switch rng.IntN(4) {
	case 0:
		return v[:rng.IntN(len(v))] + "x"
	case 1:
		return v + ":1"
	case 2:
		return "99999999999999999999999:" + v
	default:
		return strings.Replace(v, ":", "", 1)
	}
}

// Go and Lua agree bit for bit, on 150,000 steps.
func TestLuaIsTheModel(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	rng := rand.New(rand.NewPCG(3, 4))
	for range 150 {
		trials := make([]trial, 1000)
		for i := range trials {
			trials[i] = randomTrial(rng)
		}
		l.run(trials)
	}
}

func FuzzTake(f *testing.F) {
	l := newLab(f)
	f.Add("", uint64(1_763_596_800_000_000), uint8(0), uint64(100), uint64(1), uint64(200), uint64(10_000), uint64(1), uint64(0))
	f.Add("4503599627370496:0:1", uint64(1<<52), uint8(0), uint64(1e9), uint64(1), uint64(1), uint64(1), uint64(1<<52), uint64(1<<53))
	f.Add("1:9007199254740991:1000000", uint64(5), uint8(2), uint64(3), uint64(1), uint64(2), uint64(1_000_000), uint64(1), uint64(0))
	f.Add("666667:5:10", uint64(5), uint8(1), uint64(1), uint64(86400), uint64(52124), uint64(86_400_000_000), uint64(9), uint64(7))
	f.Add("1:2:3\n", uint64(5), uint8(3), uint64(1), uint64(60), uint64(1), uint64(1), uint64(1), uint64(0))
	f.Fuzz(func(t *testing.T, value string, now uint64, kind uint8, n, seconds, burst, cost, count, floor uint64) {
		s, err := bucket.NewShape(n, time.Duration(1+seconds%86400)*time.Second, burst)
		if err != nil || !s.Portable() || now >= 1<<53 {
			return
		}
		op := bucket.Op{Kind: bucket.Kind(kind % kinds), Shape: s, Cost: cost, Count: max(1, count), Floor: floor}
		(&lab{t: t, client: l.client}).run([]trial{{value: value, now: now, op: op}})
	})
}

// Foreign values are an error of their own operation, not of the batch.
func TestForeignValues(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := mustOpen(t, patient(server.Addr))
	server.Do("LPUSH", "fastlimit:list", "x")
	server.Do("SET", "fastlimit:text", "hello")
	shape := mustShape(t, 10, time.Second, 5)
	for key, want := range map[string]Class{"list": WrongType, "text": Corrupt, "good": None} {
		for _, kind := range []bucket.Kind{bucket.Take, bucket.Peek, bucket.GiveBack} {
			_, err := do(s, bucket.Op{Kind: kind, Key: key, Shape: shape, Cost: shape.Unit(), Count: 1})
			if got := Classify(err); got != want {
				t.Errorf("%d of %s: %v, want class %s", kind, key, err, want)
			}
		}
		if _, err := do(s, bucket.Op{Kind: bucket.EmptyOut, Key: key, Shape: shape, Count: 1}); err != nil {
			t.Errorf("reset of %s: %v", key, err)
		}
		if _, err := do(s, bucket.Op{Kind: bucket.Take, Key: key, Shape: shape, Cost: shape.Unit(), Count: 1}); err != nil {
			t.Errorf("after reset of %s: %v", key, err)
		}
	}
}
