package field

import (
	"errors"
	"fmt"
	"testing"
)

func TestAll(t *testing.T) {
	t.Parallel()
	a := &Error{Package: "p", Field: "A", Problem: "is 0"}
	b := &Error{Package: "p", Rule: "x", Field: "B", Problem: "5 is above C", Fix: "lower it"}
	err := fmt.Errorf("loading: %w", errors.Join(a, errors.New("other"), fmt.Errorf("wrapped: %w", errors.Join(b))))
	got := All(err)
	if len(got) != 2 || got[0] != a || got[1] != b {
		t.Errorf("All = %v, want both in order", got)
	}
	if All(nil) != nil || All(errors.New("other")) != nil {
		t.Error("errors without fields have some")
	}
	if want := `p: rule "x": B: 5 is above C: lower it`; b.Error() != want {
		t.Errorf("got %s, want %s", b, want)
	}
}
