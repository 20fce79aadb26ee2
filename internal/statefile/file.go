// Package statefile keeps a file up to date with what a process must not forget, whatever
// that is: it has a [File] written every few seconds and at the end, so that a process which is
// killed at any moment leaves a whole file, the one before at worst.
//
//	write FILE.tmp, 0600 ─► fsync ─► rename to FILE ─► fsync of the directory
//
// A file that cannot be written leaves the last good one as it is. The process goes on, says
// so once, and tries again at the next turn.
//
// One process at a time has the file: it holds a lock on FILE.lock, which the system lets go of when the
// process ends, however it does. The lock is on a file of its own, since FILE is replaced
// each time.
//
// What is written takes at most [Pace] of the disk: a piece waits until those before it
// have had their time. So a large file has longer turns, and the last one is written at once.
package statefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrHeld tells that another process has the file.
var ErrHeld = errors.New("another process has it")

// File is a file that this process has to itself. It is not safe for concurrent use.
type File struct {
	path string
	lock *os.File
}

// Open takes the lock of a file, which need not exist, but its directory has to. The
// error is [ErrHeld], or it says what to do.
func Open(path string) (*File, error) {
	lock, err := lockFile(path + ".lock")
	switch {
	case errors.Is(err, ErrHeld):
		return nil, ErrHeld
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w; create the directory, or name a file in one that exists", err)
	case err != nil:
		return nil, fmt.Errorf("%w; let this user write to the directory, or name a file in one where it may", err)
	}
	return &File{path, lock}, nil
}

// Close lets another process have the file.
func (f *File) Close() error { return f.lock.Close() }

// ErrStranger tells that somebody else may have written the file: it decides who is denied.
var ErrStranger = errors.New("not a file that only this user can write")

// Read opens a file for reading, whoever has it: it is whole at any moment. The error is
// fs.ErrNotExist if there is none yet, and [ErrStranger] if it belongs to another user than this
// one or root, if others may write it, or if it is no file at all, such as a pipe that would be waited for.
func Read(path string) (io.ReadCloser, error) { return openOwn(path) }

// Write replaces the file by what write writes, whole or not at all. It returns how long
// the new one is. Nobody else may read it.
func (f *File) Write(write func(io.Writer) error) (n int64, err error) {
	temp := f.path + ".tmp"
	// One that a process has left which was killed, with whatever mode.
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			file.Close()
			os.Remove(temp)
		}
	}()
	counted := &counter{w: file}
	if err = write(counted); err != nil {
		return 0, err
	}
	// On the disk before it has the name: after a power cut the name is that of a whole file.
	if err = file.Sync(); err != nil {
		return 0, err
	}
	if err = file.Close(); err != nil {
		return 0, err
	}
	if err = os.Rename(temp, f.path); err != nil {
		return 0, err
	}
	return counted.n, syncDir(filepath.Dir(f.path))
}

// counter counts what is written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
