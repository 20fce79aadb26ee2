package stand

import (
	"slices"
	"testing"
)

func TestStand(t *testing.T) {
	t.Parallel()
	var order []int
	err := On(func(s *Stand) error {
		s.Cleanup(func() { order = append(order, 1) })
		s.Cleanup(func() { order = append(order, 2) })
		if s.TempDir() == s.TempDir() {
			t.Error("two folders are one")
		}
		s.Fatalf("no %s", "luck")
		return nil
	})
	if err == nil || err.Error() != "no luck" || !slices.Equal(order, []int{2, 1}) {
		t.Errorf("error %v, cleaned up %v", err, order)
	}
	defer func() {
		if recover() != "a bug" {
			t.Error("the panic of a bug is swallowed")
		}
	}()
	_ = On(func(*Stand) error { panic("a bug") })
}
