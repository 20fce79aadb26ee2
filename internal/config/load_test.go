package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/mistake"
)

// A file that is no regular one is read, and never waited for without end.
func TestLoadPipes(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(fifo, noEnv)
	if want := fifo + ": is a pipe that nothing writes to; start the writer first, or name a regular file"; err == nil || err.Error() != want {
		t.Errorf("a FIFO without a writer: %v", err)
	}
	// A writer that is slow: the pipe is open before it is read.
	w, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString(rule); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { w.Close() })
	if c, err := Load(fifo, noEnv); err != nil || c.Policy.Rules[0].Limit.Name != "a" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := Load(os.DevNull, noEnv); err == nil || !strings.Contains(err.Error(), "nothing would be limited") {
		t.Error(err)
	}
}

func TestLoadFrom(t *testing.T) {
	t.Parallel()
	if c, err := LoadFrom("<stdin>", strings.NewReader(rule), noEnv); err != nil || len(c.Policy.Rules) != 1 {
		t.Errorf("%+v, %v", c, err)
	}
	_, err := LoadFrom("<stdin>", strings.NewReader("x: 1\n"+rule), noEnv)
	if err == nil || !strings.HasPrefix(err.Error(), "<stdin>:1:1: x: unknown setting") {
		t.Error(err)
	}
	var all mistake.Errors
	_, err = LoadFrom("<stdin>", failing{}, noEnv)
	if !errors.As(err, &all) || err.Error() != "<stdin>: cannot be read: out of paper; check the path" {
		t.Error(err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("out of paper") }

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "f.yaml")
	if err := os.WriteFile(file, []byte(rule), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file, nil); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]string{
		dir:                         dir + ": is a directory; name a file in it",
		filepath.Join(dir, "x"):     filepath.Join(dir, "x") + ": no such file; check the path",
		filepath.Join(file, "x"):    filepath.Join(file, "x") + ": cannot be opened: not a directory; check the path",
		filepath.Join(dir, "\x00x"): filepath.Join(dir, "\x00x") + ": cannot be opened: invalid argument; check the path",
	} {
		if _, err := Load(path, nil); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", path, err, want)
		}
	}
	// A file without end is read no further than the bound.
	if _, err := Load("/dev/zero", nil); err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("/dev/zero: %v", err)
	}
}
