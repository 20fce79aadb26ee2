package pgstore

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/step"
	"github.com/fastlimit/fastlimit/internal/testkit/faultproxy"
	"github.com/fastlimit/fastlimit/internal/testkit/pgtest"
)

// linearInput is an operation and the time it was given to the function, so that the
// model is deterministic.
type linearInput struct {
	op  bucket.Op
	now uint64
}

type linearOutput struct {
	reply   bucket.Reply
	unknown bool // maybe carried out
}

// linearModel is [step.Apply], for each key by itself. An operation of unknown outcome
// may have taken effect, or not.
var linearModel = (&porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		keys := map[string][]porcupine.Operation{}
		for _, o := range history {
			key := o.Input.(linearInput).op.Key //nolint:forcetypeassert // ours
			keys[key] = append(keys[key], o)
		}
		var all [][]porcupine.Operation
		for _, part := range keys {
			all = append(all, part)
		}
		return all
	},
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

// tick is a clock that stands still, so that the order of reading it does not matter,
// but for what the test moves.
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

const (
	linearCallers = 64
	linearKeys    = 10
	linearPhases  = 12
)

// Operations of 64 callers at once, of two nodes, over connections that break and to
// a server that is restarted meanwhile, are carried out one after another on each
// bucket, each at most once, between call and answer.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		var c Config
		server := started(t, &c)
		proxy := faultproxy.New(t, server.Addr, seed)
		c.URL = strings.Replace(c.URL, server.Addr, proxy.Addr(), 1)
		c.Workers = 4
		clock := &tick{now: 1_763_596_800_000_000}
		nodes := []*Store{openClocked(t, c, clock.read, time.Now), openClocked(t, c, clock.read, time.Now)}
		proxy.Set(t, faultproxy.Fault{ResetOneIn: 40, Slice: 200})
		history := record(t, nodes, clock, seed, server)
		known := 0
		for _, o := range history {
			if !o.Output.(linearOutput).unknown { //nolint:forcetypeassert // ours
				known++
			}
		}
		t.Logf("seed %d: %d of %d outcomes known", seed, known, len(history))
		if known < len(history)/3 || known == len(history) {
			t.Errorf("seed %d: %d of %d outcomes known: want many, but not all", seed, known, len(history))
		}
		if got := porcupine.CheckOperationsTimeout(linearModel, history, time.Minute); got != porcupine.Ok {
			t.Errorf("seed %d: %v for %d operations", seed, got, len(history))
		}
	}
}

// record runs phases of concurrent operations, and restarts the server in some of
// them. The clock moves only between phases.
func record(t *testing.T, nodes []*Store, clock *tick, seed uint64, server *pgtest.Server) []porcupine.Operation {
	t.Helper()
	var shapes []bucket.Shape
	for _, a := range algorithms {
		shape, err := shapeOf(a, 10, time.Second, 6)
		if err != nil {
			t.Fatal(err)
		}
		shapes = append(shapes, shape)
	}
	start := time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	for phase := range uint64(linearPhases) {
		var wg sync.WaitGroup
		for caller := range linearCallers {
			rng := rand.New(rand.NewPCG(seed, phase<<8|uint64(caller)))
			wg.Go(func() {
				key := rng.IntN(linearKeys)
				shape := shapes[key%len(shapes)]
				op := bucket.Op{
					Kind: bucket.Kind(rng.IntN(3)), Key: strconv.Itoa(key), Algorithm: shape.Algorithm(), Shape: shape, //nolint:gosec // 0 to 2
					Cost: shape.Cost(1 + rng.Uint64N(2)), Count: 1 + rng.Uint64N(3),
				}
				in := linearInput{op: op, now: clock.read()}
				store := nodes[caller%len(nodes)]
				call := time.Since(start).Nanoseconds()
				reply, err := do(store, op)
				for err == bucket.ErrAway { //nolint:errorlint // bare: not sent
					time.Sleep(time.Millisecond)
					call = time.Since(start).Nanoseconds()
					reply, err = do(store, op)
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
			})
		}
		if phase%4 == 3 {
			server.Restart()
		}
		wg.Wait()
		clock.advance(rand.New(rand.NewPCG(seed, phase)).Uint64N(400_000))
	}
	return history
}

// Nodes whose batches overlap, in any order, neither lose an update nor lock each
// other out.
func TestNoLostUpdate(t *testing.T) {
	t.Parallel()
	const nodes, workers, batches, size, keys = 3, 4, 40, 20, 30
	var c Config
	server := started(t, &c)
	c.Workers = workers
	shape := mustShape(t, 1, 24*time.Hour, 40_000)
	var mu sync.Mutex
	granted := uint64(0)
	var wg sync.WaitGroup
	for node := range nodes {
		s := mustOpen(t, c)
		for worker := range workers {
			rng := rand.New(rand.NewPCG(uint64(node), uint64(worker)))
			wg.Go(func() {
				for range batches {
					var ops []*bucket.Op
					for range size {
						ops = append(ops, &bucket.Op{Kind: bucket.Take, Key: "k" + strconv.Itoa(rng.IntN(keys)), Shape: shape, Cost: shape.Unit(), Count: 1})
					}
					s.driver.Exec(t.Context(), ops, func(op *bucket.Op, r bucket.Reply, err error) {
						mu.Lock()
						defer mu.Unlock()
						granted += r.Granted
						if err != nil {
							t.Errorf("%s: %v", op.Key, err)
						}
					})
				}
			})
		}
	}
	wg.Wait()
	units := server.Do("SELECT sum((level + 86399999999) / 86400000000) FROM fastlimit.bucket WHERE key LIKE 'k%'::bytea")
	if want := nodes * workers * batches * size; granted != uint64(want) || units != strconv.Itoa(want) {
		t.Errorf("%d granted and %s charged of %d", granted, units, want)
	}
}
