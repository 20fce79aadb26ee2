package redisstore

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/step"
	"github.com/fastlimit/fastlimit/internal/testkit/faultproxy"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// linearInput is an operation and the time it was given to the script, so that
// the model is deterministic.
type linearInput struct {
	op  bucket.Op
	now uint64
}

type linearOutput struct {
	reply   bucket.Reply
	unknown bool // maybe carried out
}

// linearModel is [step.Apply]. An operation of unknown outcome may have
// taken effect, or not.
var linearModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{step.State{}} },
	Step: func(state, input, output any) []any {
		in, out := input.(linearInput), output.(linearOutput) //nolint:forcetypeassert // ours
		before := state.(step.State)                          //nolint:forcetypeassert // ours
		after, r := step.Apply(before, in.now, step.NewRequest(&in.op, 0))
		if out.unknown {
			return []any{before, after}
		}
		if r.Granted != out.reply.Granted || r.Level != out.reply.Level {
			return nil
		}
		return []any{after}
	},
	Equal: func(a, b any) bool { return a == b },
}).ToModel()

// Concurrent operations on one bucket, over connections that break, are
// carried out one after another, each at most once, between call and answer. Each
// algorithm has a seed.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(len(algorithms)) {
		server := redistest.Start(t)
		proxy := faultproxy.New(t, server.Addr, seed)
		c := patient(proxy.Addr())
		c.Workers = 4
		clock := &tick{now: 1_763_596_800_000_000}
		s := openClocked(t, c, timeless, clock.read, time.Now)
		proxy.Set(t, faultproxy.Fault{ResetOneIn: 12, Slice: 50})
		history := record(t, s, clock, seed)
		known := 0
		for _, o := range history {
			if !o.Output.(linearOutput).unknown { //nolint:forcetypeassert // ours
				known++
			}
		}
		if known < len(history)/3 || known == len(history) {
			t.Errorf("seed %d: %d of %d outcomes known: want many, but not all", seed, known, len(history))
		}
		if got := porcupine.CheckOperationsTimeout(linearModel, history, time.Minute); got != porcupine.Ok {
			t.Errorf("seed %d: %v for %d operations", seed, got, len(history))
		}
	}
}

// tick is a clock that stands still, so that the order of reading it does not
// matter, but for what the test moves.
type tick struct {
	mu  sync.Mutex
	now uint64
}

func (c *tick) read() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *tick) advance(us uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += us
}

// record runs phases of concurrent operations. The clock moves only between
// phases.
func record(t *testing.T, s *Store, clock *tick, seed uint64) []porcupine.Operation {
	t.Helper()
	shape, err := shapeOf(algorithms[seed], 6, time.Second, 6)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	for phase := range uint64(12) {
		var wg sync.WaitGroup
		for caller := range 6 {
			rng := rand.New(rand.NewPCG(seed, phase<<8|uint64(caller)))
			wg.Go(func() {
				for range 4 {
					op := bucket.Op{
						Algorithm: shape.Algorithm(), Kind: bucket.Kind(rng.IntN(3)), Key: "a", Shape: shape, //nolint:gosec // 0 to 2
						Cost: shape.Cost(1 + rng.Uint64N(2)), Count: 1 + rng.Uint64N(3),
					}
					in := linearInput{op: op, now: clock.read()}
					call := time.Since(start).Nanoseconds()
					reply, err := do(s, op)
					for err == bucket.ErrAway { //nolint:errorlint // bare: not sent
						time.Sleep(time.Millisecond)
						call = time.Since(start).Nanoseconds()
						reply, err = do(s, op)
					}
					o := porcupine.Operation{
						ClientId: caller, Input: in, Call: call,
						Output: linearOutput{reply: reply, unknown: err != nil}, Return: time.Since(start).Nanoseconds(),
					}
					if err != nil {
						o.Return = math.MaxInt64
					}
					mu.Lock()
					history = append(history, o)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		clock.advance(rng(seed, phase))
	}
	return history
}

func rng(seed, phase uint64) uint64 { return rand.New(rand.NewPCG(seed, phase)).Uint64N(400_000) }
