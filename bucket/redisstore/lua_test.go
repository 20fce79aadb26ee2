package redisstore

import (
	"context"
	"flag"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/bucket/step"
	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
)

// A lab runs the script on chosen states at chosen times and compares with the
// model.
type lab struct {
	t      testing.TB
	client *redis.Client
	steps  trial.Steps // that were compared
}

func newLab(t testing.TB) *lab {
	t.Helper()
	server := redistest.Start(t)
	c := redis.NewClient(&redis.Options{Addr: server.Addr, Protocol: 2, MaxRetries: -1, ReadTimeout: time.Minute})
	t.Cleanup(func() { _ = c.Close() })
	if err := c.ScriptLoad(t.Context(), clocked.source).Err(); err != nil {
		t.Fatal(err)
	}
	return &lab{t: t, client: c}
}

// scene has the value of each key; the empty one: no key.
type scene = trial.Scene[string]

// replies of Redis to a scene.
type replies struct {
	answer *redis.SliceCmd
	values []*redis.StringCmd
	ttls   []*redis.DurationCmd
}

// run plays all scenes, each on keys of its own, in one pipeline.
func (l *lab) run(scenes []scene) {
	l.t.Helper()
	ctx := context.Background()
	pipe := l.client.Pipeline()
	pipe.FlushAll(ctx)
	got := make([]replies, len(scenes))
	for i := range scenes {
		sc := &scenes[i]
		ops := sc.SetKeys(i)
		for k, v := range sc.Stored {
			if v != "" {
				pipe.Set(ctx, "p"+sc.Key(i, k), v, 0)
			}
		}
		args := newArguments().command(clocked, "p", ops, &sc.Clock, []any{sc.Now / 1_000_000, sc.Now % 1_000_000})
		got[i].answer = redis.NewSliceCmd(ctx, args...)
		_ = pipe.Process(ctx, got[i].answer)
		for k := range sc.Stored {
			got[i].values = append(got[i].values, pipe.Get(ctx, "p"+sc.Key(i, k)))
			got[i].ttls = append(got[i].ttls, pipe.PTTL(ctx, "p"+sc.Key(i, k)))
		}
	}
	if _, err := pipe.Exec(ctx); err != nil && !isReply(err) {
		l.t.Fatal(err)
	}
	for i := range scenes {
		l.compare(&scenes[i], &got[i])
	}
}

func isReply(err error) bool { _, ok := err.(redis.Error); return ok } //nolint:errorlint // as is

func (l *lab) compare(sc *scene, got *replies) {
	l.t.Helper()
	a, ok := parseAnswer(got.answer.Val(), len(sc.Ops))
	if err := got.answer.Err(); err != nil || !ok || a.now != int64(sc.Now) {
		l.t.Fatalf("%+v: %v %v, time %d", sc.Ops, got.answer.Val(), err, a.now)
	}
	want, ttls, unseen := slices.Clone(sc.Stored), make([]int64, len(sc.Stored)), make([]bool, len(sc.Stored))
	for i := range sc.Ops {
		on, op := sc.On[i], &sc.Ops[i]
		state, sound := stateFor(want[on], op.Shape.Algorithm())
		r, err := a.next(i)
		after, res := sc.Apply(state, op)
		fail := func(expected any) {
			l.t.Helper()
			l.t.Fatalf("at %d: operation %d, %+v on %q: %+v, %v; want %+v", sc.Now, i, *op, want[on], r, err, expected)
		}
		l.steps[op.Shape.Algorithm()]++
		if res.Late {
			if classify(err) != classLate {
				fail("late")
			}
			continue
		}
		unseen[on] = unseen[on] && op.Kind != bucket.Reset
		if want[on] != "" && !sound && op.Kind != bucket.Reset {
			unseen[on] = unseen[on] || op.Shape.Logged() && headIsLog(want[on])
			if classify(err) != classCorrupt && !(unseen[on] && withinBounds(op, r, err)) {
				fail("corrupt")
			}
			continue
		}
		if unseen[on] {
			continue
		}
		if err != nil || r.Granted != res.Granted || r.Level != res.Level {
			fail(res)
		}
		if res.Write {
			want[on], ttls[on] = encodeState(after), res.TTL
		}
	}
	for k := range want {
		if !unseen[k] {
			l.compareStored(sc, k, want[k], ttls[k], got)
		}
	}
}

// stateFor is parseState for an operation of an algorithm: what is of another one is
// not looked into.
func stateFor(v string, a bucket.Algorithm) (step.State, bool) {
	if of, ok := algorithmOf(v); ok && of != a {
		return step.State{}, true
	}
	return parseState(v)
}

// headIsLog reports whether only the times of a log are unsound: the script need not
// notice, since it reads few of them.
func headIsLog(v string) bool {
	of, ok := algorithmOf(v)
	_, sound := parseState(v[:min(len(v), 9)])
	return ok && of == bucket.SlidingLog && sound
}

// withinBounds reports whether a log of whatever was stored may have answered so.
func withinBounds(op *bucket.Op, r bucket.Reply, err error) bool {
	fits := r.Granted <= op.Count && (op.Cost == 0 || r.Granted <= op.Shape.Limit()/op.Cost)
	return err == nil && fits && r.Level <= op.Shape.Limit()+uint64(op.Shape.Period()/time.Microsecond)
}

func (l *lab) compareStored(sc *scene, k int, want string, wantTTL int64, got *replies) {
	l.t.Helper()
	value, ttl := got.values[k].Val(), got.ttls[k].Val()
	expired := value == "" && wantTTL > 0 && wantTTL < time.Minute.Milliseconds()
	if value != want && !expired {
		l.t.Fatalf("%+v\nvalue %d was %q, is %q, want %q", opsOn(sc, k), k, sc.Stored[k], value, want)
	}
	// The time to live runs by the real clock.
	if most := time.Duration(wantTTL) * time.Millisecond; wantTTL > 0 && !expired && (ttl > most || ttl < most-time.Minute) {
		l.t.Fatalf("%+v\nPTTL of value %d is %v, want %d ms", opsOn(sc, k), k, ttl, wantTTL)
	}
}

// opsOn is the operations on a value.
func opsOn(sc *scene, k int) (ops []bucket.Op) {
	for i := range sc.Ops {
		if sc.On[i] == k {
			ops = append(ops, sc.Ops[i])
		}
	}
	return ops
}

var luaRounds = flag.Int("rounds", 10, "rounds of TestLuaIsTheModel, of some 4000 steps each")

// Go and Lua agree bit for bit, on some 40,000 steps of all algorithms.
func TestLuaIsTheModel(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	trial.IsTheModel(t, *luaRounds, &l.steps, randomValue, l.run)
}

// Batches as large as they come.
func TestLuaManyKeys(t *testing.T) {
	t.Parallel()
	trial.ManyKeys(10, randomValue, newLab(t).run)
}

// Foreign values are an error of their own operation, not of the batch, and
// are left as they are until they are reset.
func TestForeignValues(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := mustOpen(t, patient(server.Addr))
	server.Do("LPUSH", "fastlimit:list", "x")
	server.Do("SET", "fastlimit:text", "hello")
	shape := mustShape(t, 10, time.Second, 5)
	none := map[string]*remote.Class{"list": nil, "text": nil, "good": nil}
	for _, step := range []struct {
		kind bucket.Kind
		want map[string]*remote.Class
	}{
		{bucket.Take, map[string]*remote.Class{"list": classWrongType, "text": classCorrupt, "good": nil}},
		// Without something to write a list is as good as nothing.
		{bucket.Peek, map[string]*remote.Class{"list": nil, "text": classCorrupt, "good": nil}},
		{bucket.Refund, map[string]*remote.Class{"list": nil, "text": classCorrupt, "good": nil}},
		{bucket.Reset, none},
		{bucket.Take, none},
	} {
		if step.kind == bucket.Reset {
			if list, text := server.Do("LRANGE", "fastlimit:list", "0", "-1"), server.Do("GET", "fastlimit:text"); list != "x" || text != "hello" {
				t.Errorf("foreign values are now %q and %q", list, text)
			}
		}
		got := make(map[string]*remote.Class)
		var ops []*bucket.Op
		for key := range step.want {
			ops = append(ops, &bucket.Op{Kind: step.kind, Key: key, Shape: shape, Cost: shape.Unit(), Count: 1})
		}
		s.driver.Exec(t.Context(), ops, func(op *bucket.Op, _ bucket.Reply, err error) { got[op.Key] = classify(err) })
		if !maps.Equal(got, step.want) {
			t.Errorf("operations of kind %d: %v, want %v", step.kind, got, step.want)
		}
	}
}

// What could not be written has not happened, for those that follow too.
func TestFailedWriteIsForgotten(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := mustOpen(t, patient(server.Addr))
	server.Do("CONFIG", "SET", "maxmemory", "1")
	shape := mustShape(t, 1, time.Hour, 1)
	var got []*remote.Class
	var ops []*bucket.Op
	for range 3 {
		ops = append(ops, &bucket.Op{Kind: bucket.Take, Key: "a", Shape: shape, Cost: shape.Unit(), Count: 1})
	}
	s.driver.Exec(t.Context(), ops, func(_ *bucket.Op, _ bucket.Reply, err error) { got = append(got, classify(err)) })
	if !slices.Equal(got, []*remote.Class{classOOM, classOOM, classOOM}) {
		t.Errorf("takes of one unit: %v, want all to fail", got)
	}
}
