package storebench

import (
	"context"
	"testing"
)

func TestPacedEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	paced(ctx, 1e6, func(i int) {
		if i != n {
			t.Fatalf("call %d has number %d", n, i)
		}
		if n++; n == 1000 {
			cancel()
		}
	})
	if n != 1000 {
		t.Errorf("%d calls, want 1000", n)
	}
}
