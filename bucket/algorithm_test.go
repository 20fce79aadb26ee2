package bucket

import (
	"reflect"
	"slices"
	"testing"
	"time"
	"unsafe"
)

// Each number of a shape tells it from others, but for those that follow from the
// rest and the slack. One that is added has to be classified.
func TestParametersTellShapesApart(t *testing.T) {
	t.Parallel()
	tells := map[string]bool{"perMicro": true, "unit": true, "burst": true, "limit": false, "most": false, "mask": false, "period": true, "algorithm": true, "countBits": false, "low": false, "fromStore": false, "late": false, "stored": false, "part": true, "costs": false}
	shape, err := NewShape(3, time.Second, 5)
	if err != nil {
		t.Fatal(err)
	}
	for field := range reflect.TypeFor[Shape]().Fields() {
		want, ok := tells[field.Name]
		if !ok {
			t.Errorf("Shape.%s: say whether it tells limits apart", field.Name)
			continue
		}
		other := shape
		*(*uint64)(unsafe.Add(unsafe.Pointer(&other), field.Offset))++
		if got := !slices.Equal(other.Parameters(), shape.Parameters()); got != want {
			t.Errorf("Shape.%s: tells limits apart: %t, want %t", field.Name, got, want)
		}
	}
}

func TestLeakSeconds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		n     uint64
		per   time.Duration
		units float64
		want  float64
	}{{10, time.Second, 20, 2}, {1, 24 * time.Hour, 0.5, 43200}, {1e9, time.Second, 1, 1e-9}} {
		shape, err := NewShape(tt.n, tt.per, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := shape.LeakSeconds(tt.units); got != tt.want {
			t.Errorf("%v units at %d per %v: %v s, want %v", tt.units, tt.n, tt.per, got, tt.want)
		}
	}
}

func TestAlgorithmNames(t *testing.T) {
	t.Parallel()
	if got := LeakyBucket.String() + ", " + TokenBucket.String() + ", " + Algorithm(77).String(); got != "leaky bucket, token bucket, algorithm 77" {
		t.Error(got)
	}
}

// TestTraits: every algorithm has a name of its own, and a family whose members are alike.
func TestTraits(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for a := range NumAlgorithms {
		is := &algorithms[a]
		if is.name == "" || names[is.name] || a.String() != is.name {
			t.Errorf("algorithm %d: name %q", a, a)
		}
		names[is.name] = true
		if of := &algorithms[is.family]; of.family != is.family || of.plain != is.plain || of.periodic != is.periodic {
			t.Errorf("%v is not like %v", a, is.family)
		}
		if s := (Shape{algorithm: a}); a.Periodic() != (s.Windowed() || s.Logged()) || s.Windowed() && s.Logged() {
			t.Errorf("%v: periodic %v, windowed %v, logged %v", a, a.Periodic(), s.Windowed(), s.Logged())
		}
	}
	if len(names) != int(NumAlgorithms) || NumAlgorithms.Periodic() {
		t.Errorf("%d names of %d algorithms", len(names), NumAlgorithms)
	}
}
