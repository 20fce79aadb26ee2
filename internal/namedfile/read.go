package namedfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/fastlimit/fastlimit/internal/bytesize"
	"github.com/fastlimit/fastlimit/internal/mistake"
)

// largest is the largest file that [ReadFile] reads, in bytes. Files of overrides may be long.
const largest = 256 << 20

// ReadFile returns the content of a file. Its error does not name the file: whoever asks for one does.
func ReadFile(path string) ([]byte, error) {
	data, e := Read(path, largest)
	switch {
	case e != nil:
		return nil, errors.New(e.Problem)
	case len(data) > largest:
		return nil, errors.New("is larger than " + bytesize.Text(largest))
	}
	return data, nil
}

// Read returns the content of a file, up to one byte more than most: so who asks notices a file that is too
// large, /dev/zero for one. It never blocks for long: O_NONBLOCK opens a FIFO that has no writer, and a
// deadline ends the wait for one that sends nothing.
func Read(path string, most int64) ([]byte, *mistake.Error) {
	fail := func(problem, fix string) ([]byte, *mistake.Error) {
		return nil, &mistake.Error{File: path, Problem: problem, Fix: fix}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fail(openProblem(err))
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return fail("cannot be read: "+Cause(err), pathFix)
	case st.IsDir():
		return fail("is a directory", "name a file in it")
	case !st.Mode().IsRegular():
		_ = f.SetReadDeadline(time.Now().Add(pipeTimeout)) // fails for devices that never block
	}
	data, e := ReadAll(path, f, most)
	if e == nil && len(data) == 0 && st.Mode()&fs.ModeNamedPipe != 0 {
		return fail("is a pipe that nothing writes to", "start the writer first, or name a regular file")
	}
	return data, e
}

// pipeTimeout is how long a pipe or a device may keep its reader waiting.
const pipeTimeout = 5 * time.Second

const pathFix = "check the path"

// ReadAll is [Read] for what is open already; errors call it name.
func ReadAll(name string, r io.Reader, most int64) ([]byte, *mistake.Error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &mistake.Error{File: name, Problem: fmt.Sprintf("is a pipe whose writer has not finished in %v", pipeTimeout), Fix: "name a regular file"}
	case err != nil:
		return nil, &mistake.Error{File: name, Problem: "cannot be read: " + Cause(err), Fix: pathFix}
	}
	return data, nil
}

// openProblem words the errors that are worth a fix of their own.
func openProblem(err error) (problem, fix string) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such file", pathFix
	case errors.Is(err, fs.ErrPermission):
		return "permission denied", "make it readable for the user that runs fastlimit"
	}
	return "cannot be opened: " + Cause(err), pathFix
}

// Cause is the text of an error without operation and path: the path begins the message already.
func Cause(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	return err.Error()
}
