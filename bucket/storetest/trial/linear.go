package trial

import (
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/step"
	"github.com/fastlimit/fastlimit/bucket/storetest"
	"github.com/fastlimit/fastlimit/internal/testkit"
)

// linearInput is an operation and the time it was given to the store, so that the model
// is deterministic.
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
			key := o.Input.(linearInput).op.Key // ours
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
		in, out := input.(linearInput), output.(linearOutput) // ours
		before := state.(step.State)                          // ours
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

// Tick is a clock that stands still, so that the order of reading it does not matter,
// but for what the test moves. It is safe for concurrent use.
type Tick struct {
	mu  sync.Mutex
	now uint64
}

// NewTick stands at an ordinary date.
func NewTick() *Tick { return &Tick{now: someday} }

// Now in µs.
func (c *Tick) Now() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *Tick) advance(us uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += us
}

// Linear is a test of whether operations of many callers at once, over connections that
// break, are carried out one after another on each bucket, each at most once, between
// call and answer.
type Linear struct {
	Seed    uint64
	Clock   *Tick          // of the stores
	Nodes   []bucket.Store // callers take turns; what they share is one
	Shapes  []bucket.Shape // keys take turns
	Callers int            // at once
	Each    int            // operations of a caller in a phase, one after the other
	Keys    int
	Disturb func(phase int) // unless nil, is called while operations are in flight
	Faulty  bool            // connections break, so that some are not known

	// Settle returns when the server carries out nothing any more of what it was given. After
	// each phase it ends what may have become of operations that are not known, or too many
	// orders would have to be tried. nil: there are none.
	Settle func()
}

// history is what happened. It is safe for concurrent use.
type history struct {
	start time.Time
	mu    sync.Mutex
	all   []porcupine.Operation // guarded by mu
}

// settle ends the operations that are not known.
func (h *history) settle() {
	now := time.Since(h.start).Nanoseconds()
	for i := range h.all {
		h.all[i].Return = min(h.all[i].Return, now)
	}
}

// linearPhases are between them movements of the clock.
const linearPhases = 12

// Check runs phases of concurrent operations and fails the test unless what they were
// answered is linearizable.
func (l *Linear) Check(t *testing.T) {
	t.Helper()
	h := &history{start: time.Now()}
	for phase := range linearPhases {
		var wg sync.WaitGroup
		for caller := range l.Callers {
			rng := rand.New(rand.NewPCG(l.Seed, uint64(phase<<8|caller)))
			wg.Go(func() {
				for range l.Each {
					l.call(h, rng, caller)
				}
			})
		}
		if l.Disturb != nil {
			l.Disturb(phase)
		}
		wg.Wait()
		if l.Settle != nil {
			l.Settle()
			h.settle()
			l.read(h)
		}
		l.Clock.advance(rand.New(rand.NewPCG(l.Seed, uint64(phase))).Uint64N(400_000))
	}
	known := 0
	for _, o := range h.all {
		if !o.Output.(linearOutput).unknown { // ours
			known++
		}
	}
	t.Logf("seed %d: %d of %d outcomes known", l.Seed, known, len(h.all))
	if known < len(h.all)/3 || (known == len(h.all)) == l.Faulty {
		t.Errorf("seed %d: %d of %d outcomes known: want many, and all only if nothing breaks", l.Seed, known, len(h.all))
	}
	if got := porcupine.CheckOperationsTimeout(linearModel, h.all, time.Until(testkit.Deadline(t))); got != porcupine.Ok {
		t.Errorf("seed %d: %v for %d operations", l.Seed, got, len(h.all))
	}
}

// read notes what is in each bucket, when no operation is in flight. It leaves few states
// that the operations that are not known may have led to: without it their number grows
// from phase to phase, and to try them all can take longer than the tests may.
func (l *Linear) read(h *history) {
	for key := range l.Keys {
		shape := l.Shapes[key%len(l.Shapes)]
		op := bucket.Op{Kind: bucket.Peek, Key: strconv.Itoa(key), Algorithm: shape.Algorithm(), Shape: shape, Cost: shape.Cost(1), Count: 1}
		for !h.do(l.Nodes[0], linearInput{op: op, now: l.Clock.Now()}, l.Callers) { // its connection breaks, too
		}
	}
}

// call carries out one operation and notes its outcome.
func (l *Linear) call(h *history, rng *rand.Rand, caller int) {
	key := rng.IntN(l.Keys)
	shape := l.Shapes[key%len(l.Shapes)]
	op := bucket.Op{
		Kind: bucket.Kind(rng.IntN(3)), Key: strconv.Itoa(key), Algorithm: shape.Algorithm(), Shape: shape, // 0 to 2
		Cost: shape.Cost(1 + rng.Uint64N(2)), Count: 1 + rng.Uint64N(3),
	}
	h.do(l.Nodes[caller%len(l.Nodes)], linearInput{op: op, now: l.Clock.Now()}, caller)
}

// do carries out one operation and reports whether its outcome is known. It notes it unless
// it is not known and changes nothing either way.
func (h *history) do(store bucket.Store, in linearInput, caller int) (known bool) {
	call := time.Since(h.start).Nanoseconds()
	reply, err := storetest.Do(store, in.op)
	for err == bucket.ErrAway { //nolint:errorlint // bare: not sent
		time.Sleep(time.Millisecond)
		call = time.Since(h.start).Nanoseconds()
		reply, err = storetest.Do(store, in.op)
	}
	if err != nil && in.op.Kind == bucket.Peek {
		return false
	}
	o := porcupine.Operation{
		ClientId: caller, Input: in, Call: call,
		Output: linearOutput{reply: reply, unknown: err != nil}, Return: time.Since(h.start).Nanoseconds(),
	}
	if err != nil {
		o.Return = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, o)
	return err == nil
}
