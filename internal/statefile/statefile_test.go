package statefile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

func open(t *testing.T, path string) *File {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func content(t *testing.T, f *File) string {
	t.Helper()
	r, err := Read(f.path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestWrite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	f := open(t, path)
	if _, err := Read(f.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there yet: %v", err)
	}
	// What a process has left that was killed.
	if err := os.WriteFile(path+".tmp", []byte("half of someth"), 0o666); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Write(text("one")); n != 3 || err != nil || content(t, f) != "one" {
		t.Errorf("%d, %v", n, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	broken := errors.New("broken")
	_, err = f.Write(func(w io.Writer) error {
		if err := text("tw")(w); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) || content(t, f) != "one" {
		t.Errorf("%v, and it is %q", err, content(t, f))
	}
	if _, err := os.Stat(path + ".tmp"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was given up: %v", err)
	}
}

func TestOneProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	f := open(t, path)
	if _, err := Open(path); !errors.Is(err, ErrHeld) {
		t.Errorf("a second one: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, path)
	_, err := Open(filepath.Join(t.TempDir(), "no", "state"))
	if err == nil || !strings.Contains(err.Error(), "create the directory") {
		t.Errorf("no directory: %v", err)
	}
}

func TestClasses(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]Class{
		nil: "", syscall.ENOSPC: ClassFull, errQuota: ClassFull, syscall.EFBIG: ClassFull, syscall.EROFS: ClassRefused, syscall.EACCES: ClassRefused,
		syscall.ENOENT: ClassMissing, syscall.EIO: ClassOther,
	} {
		if err != nil {
			err = fmt.Errorf("write: %w", &os.PathError{Op: "write", Path: "x", Err: err})
		}
		if got := classOf(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// TestKeeperSaysOnce: a disk that is full is said once, and again when it no more is; the
// last good file stays meanwhile.
func TestKeeperSaysOnce(t *testing.T) {
	t.Parallel()
	f := open(t, filepath.Join(t.TempDir(), "state"))
	synctest.Test(t, func(t *testing.T) {
		log := new(testkit.Log)
		turn := 0
		k := NewKeeper(Config{Path: "FILE", Log: slog.New(slog.NewTextHandler(log, nil)), Write: func(w io.Writer) error {
			if turn++; turn > 2 && turn < 6 {
				return syscall.ENOSPC
			}
			return text(fmt.Sprint("turn ", turn))(w)
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { k.Run(ctx, f); close(done) }()
		at := func(after time.Duration, want string, errs uint64, said int) {
			time.Sleep(after)
			synctest.Wait()
			if got := content(t, f); got != want || k.Stats().Errors[ClassFull] != errs || strings.Count(log.String(), "\n") != said {
				t.Errorf("%q with %v, want %q with %d; log:\n%s", got, k.Stats(), want, errs, log.String())
			}
		}
		at(15*time.Second, "turn 2", 0, 0)
		at(30*time.Second, "turn 2", 3, 1)
		at(10*time.Second, "turn 6", 3, 2)
		if s := k.Stats(); s.Bytes != 6 || time.Since(s.Written) > 10*time.Second {
			t.Errorf("%+v", s)
		}
		cancel()
		<-done
		k.Finish(f)
		at(0, "turn 7", 3, 2)
	})
}

// TestPace: a large file takes its time, piece by piece. At the end it is written at once,
// and what was being written is given up.
func TestPace(t *testing.T) {
	t.Parallel()
	const pieces, piece = 30, Pace / 2
	f := open(t, filepath.Join(t.TempDir(), "state"))
	synctest.Test(t, func(t *testing.T) {
		begun, turns, written := time.Now(), []time.Duration{}, 0
		k := NewKeeper(Config{Path: "FILE", Log: slog.New(slog.DiscardHandler), Write: func(w io.Writer) error {
			turns = append(turns, time.Since(begun))
			for range pieces {
				if _, err := w.Write(make([]byte, piece)); err != nil {
					return err
				}
				written += piece
				if most := int64(time.Since(begun)/time.Second+1)*Pace + piece; int64(written) > most && turns[len(turns)-1] < time.Minute {
					t.Errorf("%d bytes after %v", written, time.Since(begun))
				}
			}
			return nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { k.Run(ctx, f); close(done) }()
		time.Sleep(60 * time.Second)
		cancel()
		<-done
		if got := fmt.Sprint(turns); got != "[0s 15.01s 30.02s 45.03s]" { // of 15 s each
			t.Errorf("turns at %v", got)
		}
		if k.Stats().Took != 15*time.Second {
			t.Errorf("it took %v", k.Stats().Took)
		}
		at := time.Now()
		k.Finish(f)
		if time.Since(at) > 0 || k.Stats().Bytes != pieces*piece {
			t.Errorf("the end took %v, %d bytes", time.Since(at), k.Stats().Bytes)
		}
	})
}
