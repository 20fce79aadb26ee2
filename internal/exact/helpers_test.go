package exact

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/clock"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// timeout is J of a [Shared] in tests.
const timeout = 5 * time.Millisecond

// shapeOf is the shape of a rule.
func shapeOf(t *testing.T, c limit.RuleConfig) bucket.Shape {
	t.Helper()
	p, err := limit.NewRulePlan(c, &limit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return p.Shape
}

// newBuckets are the buckets of a rule, by the machine's clock.
func newBuckets(t *testing.T, c limit.RuleConfig) (b Buckets) {
	t.Helper()
	c.Name = "a"
	line := new(clock.Clock)
	line.StartMachine()
	line.EndBy(&clock.End{At: math.MaxInt64}, &clock.End{At: math.MaxInt64})
	line.StartWall(false)
	b.SetLimit(line, shapeOf(t, c), c.CountDenied)
	if err := b.Table.Init(b.Shape, 64); err != nil {
		t.Fatal(err)
	}
	return b
}

// away is a store that takes nothing.
type away struct{}

func (away) Runs(bucket.Algorithm) bool  { return true }
func (away) Submit(*bucket.Op) error     { return bucket.ErrAway }
func (away) Close(context.Context) error { return nil }

// clientNamed is a client with the digest of that name.
func clientNamed(name string) Client {
	id := uint64(len(name))
	for _, c := range []byte(name) {
		id = (id ^ uint64(c)) * 0x9e3779b97f4a7c15
	}
	return Client{Digest: sketch.Digest{Pos: id, ID: id}, Parts: [][]byte{[]byte(name)}}
}
