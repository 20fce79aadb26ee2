//go:build linux

// Package stand takes the place of a testing.T outside of tests, for the servers and
// proxies of the test kits.
package stand

import (
	"errors"
	"fmt"
	"os"
)

// Stand holds the files of servers and proxies, and stops them in the end. It is
// [testkit.T]. The zero value is not usable: see [On].
type Stand struct {
	dir      string
	cleanups []func()
}

// failure is what Fatal panics with; [On] turns it into an error.
type failure string

// On calls f with a stand. Whatever is wrong with a server or proxy is an error.
func On(f func(*Stand) error) (err error) {
	dir, err := os.MkdirTemp("", "fastlimit-bench-")
	if err != nil {
		return err
	}
	s := &Stand{dir: dir}
	defer func() {
		if p := recover(); p != nil {
			why, ok := p.(failure)
			if !ok {
				panic(p)
			}
			err = errors.New(string(why))
		}
		for i := range s.cleanups {
			s.cleanups[len(s.cleanups)-1-i]()
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	return f(s)
}

// Helper does nothing: lines are of no interest here.
func (*Stand) Helper() {}

// Fatal ends what runs on the stand. It must be called by the goroutine that
// does.
func (*Stand) Fatal(args ...any) { panic(failure(fmt.Sprint(args...))) }

// Fatalf is Fatal with a format.
func (*Stand) Fatalf(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }

// Cleanup calls f in the end, what was given last first.
func (s *Stand) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

// TempDir returns a folder of its own.
func (s *Stand) TempDir() string {
	dir, err := os.MkdirTemp(s.dir, "")
	if err != nil {
		s.Fatal(err)
	}
	return dir
}
