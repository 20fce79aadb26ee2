//go:build unix

package statefile

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockFile creates the file if necessary and locks it until it is closed. It does not wait. The file stays
// when the process ends: removing it could remove it while another process has it open.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
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

// othersWrite are the mode bits that let others write a file.
const othersWrite = 0o022

// openOwn opens a file that only this user or root can have written.
func openOwn(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil {
		owner, _ := info.Sys().(*syscall.Stat_t)
		switch {
		case !info.Mode().IsRegular():
			err = fmt.Errorf("%w: %s is %v", ErrStranger, path, info.Mode())
		case owner != nil && owner.Uid != 0 && int(owner.Uid) != os.Geteuid():
			err = fmt.Errorf("%w: %s belongs to user %d", ErrStranger, path, owner.Uid)
		case info.Mode()&othersWrite != 0:
			err = fmt.Errorf("%w: %s has mode %v", ErrStranger, path, info.Mode())
		}
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// syncDir makes a new name survive a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) { // some file systems do not support it
		return err
	}
	return nil
}
