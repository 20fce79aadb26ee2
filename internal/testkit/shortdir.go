package testkit

import (
	"os"
	"testing"
)

// ShortDir is a new directory for Unix sockets, whose paths have 103 bytes at most: that of
// [testing.T.TempDir] has the name of the test in it. It is removed when the test ends.
func ShortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fl") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
