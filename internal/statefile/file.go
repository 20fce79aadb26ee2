// Package statefile keeps a file up to date with what a process must not forget, whatever that is: it writes
// a [File] every few seconds and at the end, so that a process that is killed at any moment leaves a whole
// file, at worst the previous one.
//
//	write FILE.tmp, 0600 ─► fsync ─► rename to FILE ─► fsync of the directory
//
// If the file cannot be written, the last good one stays. The process continues, logs it once, and tries
// again at the next step.
//
// Only one process has the file: it holds a lock on FILE.lock, which the system releases when the process
// ends, however it does. The lock is a separate file, since FILE is replaced each time.
//
// Writing takes at most [Pace] of the disk: a piece waits until the time of those before it is over. So a
// large file is written less often. The last write does not wait.
package statefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrHeld means that another process has the file.
var ErrHeld = errors.New("another process has it")

// File is a file that this process has to itself. It is not safe for concurrent use.
type File struct {
	path string
	lock *os.File
}

// Open takes the lock of a file, which need not exist, unlike its directory. The error is [ErrHeld], or says
// what to do.
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

// ErrStranger means that somebody else may have written the file, which decides who is denied.
var ErrStranger = errors.New("not a file that only this user can write")

// Read opens a file for reading, whoever has it: it is whole at any moment. The error is fs.ErrNotExist if
// there is none yet, and [ErrStranger] if it belongs to another user than this one or root, if others may
// write it, or if it is not a regular file, such as a pipe, on which a read would block.
func Read(path string) (io.ReadCloser, error) { return openOwn(path) }

// Write replaces the file by write's output, entirely or not at all. It returns the new size. Nobody else may
// read it.
func (f *File) Write(write func(io.Writer) error) (n int64, err error) {
	temp := f.path + ".tmp"
	// Left behind by a killed process, with whatever mode.
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
	// On the disk before the rename: after a power cut the name must be that of a whole file.
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

// counter counts written bytes.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
