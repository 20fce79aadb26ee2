package report

import (
	"strings"
	"testing"
)

func TestCurrentEnvironment(t *testing.T) {
	t.Parallel()
	e := CurrentEnvironment([]string{"bench", "accuracy", "--redis=redis://me:secret@10.0.0.1:6379/0", "http://10.0.0.1/a@b"})
	if e.CPU == "" || e.Cores < 1 || e.Kernel == "" || !strings.HasPrefix(e.Go, "go") || e.Date.IsZero() {
		t.Errorf("%+v", e)
	}
	if got, want := strings.Join(e.Flags, " "), "bench accuracy --redis=redis://…@10.0.0.1:6379/0 http://10.0.0.1/a@b"; got != want {
		t.Errorf("flags %s, want %s", got, want)
	}
}
