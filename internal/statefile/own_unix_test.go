//go:build unix

package statefile

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A file that somebody else can have written is not read: it decides who is denied, and with
// which secret. Nor is one waited for that is none.
func TestStrangers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		make func(path string) error
		ok   bool
	}{
		"own":      {func(p string) error { return os.WriteFile(p, nil, 0o600) }, true},
		"readable": {func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o600), os.Chmod(p, 0o644)) }, true},
		"group":    {func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o600), os.Chmod(p, 0o620)) }, false},
		"all":      {func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o600), os.Chmod(p, 0o602)) }, false},
		"pipe":     {func(p string) error { return syscall.Mkfifo(p, 0o600) }, false},
		"folder":   {func(p string) error { return os.Mkdir(p, 0o700) }, false},
		"link": {func(p string) error {
			return errors.Join(os.WriteFile(p+".own", nil, 0o600), os.Symlink(p+".own", p))
		}, true},
		"link to all": {func(p string) error {
			return errors.Join(os.WriteFile(p+".all", nil, 0o600), os.Chmod(p+".all", 0o666), os.Symlink(p+".all", p))
		}, false},
		"another's": {func(p string) error {
			if os.Geteuid() != 0 {
				t.Skip("only root can give files away")
			}
			return errors.Join(os.WriteFile(p, nil, 0o600), os.Chown(p, 12345, 12345))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(dir, name)
			if err := tt.make(path); err != nil {
				t.Fatal(err)
			}
			f, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			r, err := Read(path)
			if (err == nil) != tt.ok || !tt.ok && !errors.Is(err, ErrStranger) {
				t.Errorf("%v, want it read: %v", err, tt.ok)
			}
			if err == nil {
				r.Close()
			}
		})
	}
}

// A process that is killed every few seconds is remembered too.
func TestWritesSoonAfterTheStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	synctest.Test(t, func(t *testing.T) {
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var written atomic.Int64
		k := NewKeeper(Config{Path: path, Log: slog.New(slog.DiscardHandler), Write: func(w io.Writer) error {
			written.Add(1)
			_, err := w.Write([]byte("x"))
			return err
		}})
		ctx, cancel := context.WithCancel(t.Context())
		go k.Run(ctx, f)
		for _, tt := range []struct {
			pass time.Duration
			want int64
		}{{time.Millisecond, 1}, {Every - 2*time.Millisecond, 1}, {2 * time.Millisecond, 2}, {Every, 3}} {
			time.Sleep(tt.pass)
			if synctest.Wait(); written.Load() != tt.want {
				t.Errorf("%d times written, want %d", written.Load(), tt.want)
			}
		}
		cancel()
	})
}
