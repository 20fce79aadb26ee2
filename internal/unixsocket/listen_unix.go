//go:build unix

package unixsocket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Listener listens on a path. It removes the path when it stops accepting, unless something else is there by
// then.
type Listener struct {
	*net.UnixListener
	path string
	file fs.FileInfo // of the path, as bound
	gone sync.Once   // the path was removed
}

// Listen binds a path, and removes the socket of a process that has ended. fix says what the operator can do
// about an error. Nobody can connect with wider rights than mode, even for a moment: the path gets its mode
// between bind and listen, and a socket that does not listen refuses everybody. (A umask would affect the
// whole process.)
func Listen(path string, mode fs.FileMode) (_ *Listener, fix string, err error) {
	unlock, err := lockFolder(filepath.Dir(path))
	if err != nil {
		return nil, "make the directory first, writable for the user that runs fastlimit", err
	}
	defer unlock()
	if fix, err := clearPath(path); err != nil {
		return nil, fix, err
	}
	fd, err := unixSocket()
	if err != nil {
		return nil, "raise the limit of open files", err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close() // the listener has a copy
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, "the directory must be writable for the user that runs fastlimit", os.NewSyscallError("bind", err)
	}
	ln, info, err := openPath(f, path, mode, unix.Listen)
	if err != nil {
		_ = os.Remove(path)
		return nil, "check the file system of the path", err
	}
	ln.SetUnlinkOnClose(false) // see remove
	return &Listener{UnixListener: ln, path: path, file: info}, "", nil
}

// openPath sets the mode of a bound path, and listens on it.
func openPath(f *os.File, path string, mode fs.FileMode, listen func(fd, backlog int) error) (*net.UnixListener, fs.FileInfo, error) {
	err := unix.Fchmodat(unix.AT_FDCWD, path, uint32(mode), unix.AT_SYMLINK_NOFOLLOW)
	if slices.ContainsFunc([]error{unix.EOPNOTSUPP, unix.ENOSYS, unix.EPERM}, func(e error) bool { return errors.Is(err, e) }) {
		// Linux before 6.6, or an older filter of system calls.
		err = os.Chmod(path, mode)
	}
	if err != nil {
		return nil, nil, os.NewSyscallError("chmod", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, nil, err
	}
	if info.Mode() != fs.ModeSocket|mode {
		return nil, nil, fmt.Errorf("%s is %v and not as it was created", path, info.Mode())
	}
	if err := listen(int(f.Fd()), backlog); err != nil {
		return nil, nil, os.NewSyscallError("listen", err)
	}
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, nil, err
	}
	return ln.(*net.UnixListener), info, nil // the socket is one
}

// backlog is cut by the system to its limit, as for TCP.
const backlog = 1 << 15

func unixSocket() (fd int, err error) {
	// As package syscall has it for systems without SOCK_CLOEXEC.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	unix.CloseOnExec(fd)
	return fd, nil
}

// clearPath removes the socket of a process that has ended, and reports anything else at the path. The caller
// has locked the directory.
func clearPath(path string) (fix string, err error) {
	const remove = "remove it if nobody needs it, or choose another path"
	info, err := os.Lstat(path) // the target of a symbolic link is somebody else's
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "check the path", err
	case info.Mode()&fs.ModeSymlink != 0:
		return remove, errors.New("the path is a symbolic link")
	case info.Mode()&fs.ModeSocket == 0:
		return remove, errors.New("the path exists and is not a socket")
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		c.Close()
		return "stop that process, or choose another path", ErrInUse
	case errors.Is(err, unix.ECONNREFUSED): // no process has it open
		if err := os.Remove(path); err != nil {
			return "it is of a process that has ended: remove it", err
		}
		return "", nil
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	}
	return "stop the process that uses it, or choose another path", fmt.Errorf("there is already a socket: %w", err)
}

// lockFolder keeps other instances from taking the same path at the same time: both would see a dead socket,
// and the second would remove the first one's new one. The lock is on the directory, so no file is left
// behind.
func lockFolder(path string) (unlock func(), err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(lockTime); ; time.Sleep(5 * time.Millisecond) {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Now().After(end) {
			f.Close()
			return nil, fmt.Errorf("%s cannot be locked: %w", path, err)
		}
	}
}

// lockTime bounds the wait for others to release the lock, which they hold only briefly.
const lockTime = 2 * time.Second

// RefuseNew removes the path: from here on connecting fails at once, and a proxy tries another server.
// Connections in the queue are still accepted.
func (l *Listener) RefuseNew() (err error) {
	l.gone.Do(func() { err = l.remove() })
	return err
}

func (l *Listener) remove() error {
	unlock, err := lockFolder(filepath.Dir(l.path))
	if err != nil {
		return err
	}
	defer unlock()
	if info, err := os.Lstat(l.path); err != nil || !os.SameFile(info, l.file) {
		return err // it is not ours any more
	}
	return os.Remove(l.path)
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	_ = l.RefuseNew() // whatever comes next replaces it
	return l.UnixListener.Close()
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return address(l.path) }
