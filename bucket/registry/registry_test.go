package registry_test

import (
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket/registry"
	"github.com/fastlimit/fastlimit/bucket/registry/registrytest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	m := new(registry.Memory)
	registrytest.Run(t, func() registry.Store { return m }, func() { m.Forget() })
}

// A snapshot brings back what was there, and what came since is lost.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	m := new(registry.Memory)
	change := func(name string) {
		if err := m.Put(t.Context(), name, "", time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	mark := func() registry.Mark {
		is, err := m.Mark(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	change("a")
	was, back := mark(), m.Snapshot()
	change("b")
	if mark() == was {
		t.Error("a change left the mark as it was")
	}
	if back(); mark() != was {
		t.Errorf("mark %+v, want %+v", mark(), was)
	}
}
