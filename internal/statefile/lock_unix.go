//go:build unix

package statefile

import (
	"errors"
	"os"
	"syscall"
)

// lockFile makes the file if there is none and locks it until it is closed. It does not
// wait. The file stays when the process ends: one that removed it could remove it from
// under another that has it open.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) //nolint:gosec // a descriptor
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, ErrHeld
	}
	return nil, &os.PathError{Op: "lock", Path: path, Err: err}
}

// syncDir has a new name survive a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) { // some file systems have no such thing
		return err
	}
	return nil
}
