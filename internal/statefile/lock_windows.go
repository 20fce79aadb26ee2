package statefile

import (
	"errors"
	"os"
	"syscall"
)

const sharingViolation = syscall.Errno(32) // ERROR_SHARING_VIOLATION

// lockFile makes the file if there is none and opens it, which nobody else can as long as
// it is open.
func lockFile(path string) (*os.File, error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	h, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil, syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if errors.Is(err, sharingViolation) {
		return nil, ErrHeld
	}
	if err != nil {
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return os.NewFile(uintptr(h), path), nil
}

// syncDir does nothing: names are on the disk here when files are.
func syncDir(string) error { return nil }

// openOwn opens a file for reading. Who may write it is up to its directory.
func openOwn(path string) (*os.File, error) { return os.Open(path) }
