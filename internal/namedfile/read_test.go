package namedfile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Whatever a path leads to, it is read within bounds or refused with a reason.
func TestReadFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	if err := os.WriteFile(file, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := ReadFile(file); err != nil || string(b) != "0123456789" {
		t.Errorf("%q %v", b, err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "no such file",
		dir:                        "is a directory",
		pipe:                       "is a pipe that nothing writes to",
		filepath.Join(file, "x"):   "cannot be opened",
	} {
		if b, err := ReadFile(path); b != nil || err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %q %v", path, b, err)
		}
	}
	for path, most := range map[string]int64{file: 9, "/dev/zero": 1000} {
		if b, e := Read(path, most); e != nil || int64(len(b)) != most+1 {
			t.Errorf("%s: %d bytes, %v", path, len(b), e)
		}
	}
}
