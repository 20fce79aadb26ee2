package trial

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/bucket/step"
)

// Scene is one batch: what is stored, the time, and operations on it, several on one
// key too. V is what a store keeps for a bucket; its zero value is a key that is not there.
type Scene[V any] struct {
	Stored []V
	Now    uint64        // µs of the store's clock
	Clock  remote.Dating // what dates the operations
	Ops    []bucket.Op
	On     []int // index of what is stored, of each operation
}

// someday is an ordinary date, in µs.
const someday = 1_763_596_800_000_000

// Key is that of something stored, in the scene of a number.
func (*Scene[V]) Key(scene, stored int) string {
	return strconv.Itoa(scene) + "." + strconv.Itoa(stored)
}

// SetKeys gives the operations of the scene of a number their keys, and returns them.
func (sc *Scene[V]) SetKeys(scene int) []*bucket.Op {
	ops := make([]*bucket.Op, len(sc.Ops))
	for i := range sc.Ops {
		ops[i] = &sc.Ops[i]
		ops[i].Key = sc.Key(scene, sc.On[i])
	}
	return ops
}

// Apply is what the model does for an operation of the scene.
func (sc *Scene[V]) Apply(before step.State, op *bucket.Op) (after step.State, _ step.Result) {
	request := step.NewRequest(op, sc.Clock.Date(op))
	request.Sent = sc.Clock.SentDate()
	return step.Apply(before, sc.Now, request)
}

// add adds an operation on what is stored under a number.
func (sc *Scene[V]) add(on int, op bucket.Op) {
	sc.On, sc.Ops = append(sc.On, on), append(sc.Ops, op)
}

// Stored makes what a store may hold, at a time, of a client with a limit.
type Stored[V any] func(rng *rand.Rand, s bucket.Shape, now uint64) V

// randomScene has one key and one operation, or several.
func randomScene[V any](rng *rand.Rand, stored Stored[V]) Scene[V] {
	sc := Scene[V]{Now: someday + rng.Uint64N(1<<40)}
	if rng.IntN(4) > 0 {
		sc.Clock = remote.Dating{Reading: remote.Reading{Micros: int64(near(rng, sc.Now)), Got: time.Unix(0, 0)}, Sent: time.Unix(0, rng.Int64N(3000)-1000)}
	}
	keys, ops := 1, 1
	if rng.IntN(3) == 0 {
		keys, ops = 1+rng.IntN(8), 1+rng.IntN(20)
	}
	shapes := make([]bucket.Shape, keys)
	for i := range shapes {
		shapes[i] = RandomShape(rng)
		sc.Stored = append(sc.Stored, stored(rng, shapes[i], sc.Now))
	}
	for range ops {
		on := rng.IntN(keys)
		shape := shapes[on]
		if rng.IntN(10) == 0 {
			shape = RandomShape(rng) // nodes may differ while they are reloaded
		}
		sc.add(on, RandomOp(rng, shape, sc.Now))
	}
	return sc
}

// Steps counts those that were compared with the model, by algorithm.
type Steps [bucket.NumAlgorithms]int

// IsTheModel runs rounds of some 4000 random steps each, of all algorithms. play plays
// scenes, each on keys of its own, compares with [Scene.Apply] and counts the steps.
func IsTheModel[V any](t *testing.T, rounds int, steps *Steps, stored Stored[V], play func([]Scene[V])) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	for range rounds {
		scenes := make([]Scene[V], 1000)
		for i := range scenes {
			scenes[i] = randomScene(rng, stored)
		}
		play(scenes)
	}
	all := 0
	for _, a := range Algorithms {
		all += steps[a]
		t.Logf("%d steps of the %v", steps[a], a)
		if steps[a] < 100*rounds {
			t.Errorf("%v: %d steps in %d rounds", a, steps[a], rounds)
		}
	}
	t.Logf("%d steps in all", all)
}

// ManyKeys plays batches as large as they come.
func ManyKeys[V any](batches int, stored Stored[V], play func([]Scene[V])) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range batches {
		sc := Scene[V]{Now: someday, Clock: remote.Dating{Reading: remote.Reading{Micros: someday, Got: time.Unix(0, 0)}, Sent: time.Unix(0, 0)}}
		for i := range remote.MaxBatch {
			shape := RandomShape(rng)
			sc.Stored = append(sc.Stored, stored(rng, shape, sc.Now))
			sc.add(i, RandomOp(rng, shape, sc.Now))
		}
		play([]Scene[V]{sc})
	}
}
