package namedfile

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSame(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	at := time.Now().Add(-time.Hour)
	write := func(name, text string, at time.Time) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if none := Look(a); none != nil || !Same(none, Look(a)) {
		t.Error("a file that is not there differs from itself")
	}
	write(a, "1", at)
	first := Look(a)
	if !Same(first, Look(a)) || Same(first, nil) || Same(nil, first) {
		t.Error("a file differs from itself, or equals none")
	}
	write(a, "2", at.Add(time.Second))
	if Same(first, Look(a)) {
		t.Error("another time is not noticed")
	}
	write(a, "12", at)
	if Same(first, Look(a)) {
		t.Error("another size is not noticed")
	}
	write(a, "1", at)
	write(b, "1", at)
	if err := os.Rename(b, a); err != nil {
		t.Fatal(err)
	}
	if Same(first, Look(a)) {
		t.Error("another file of the same size and time is not noticed")
	}
}
