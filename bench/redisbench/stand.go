//go:build linux

package redisbench

import (
	"errors"
	"fmt"
	"os"
)

// stand takes the place of a testing.T outside of tests, for the servers and
// proxies of the test kits: it holds their files and stops them in the end.
type stand struct {
	program  string // redis-server
	dir      string
	cleanups []func()
}

// failure is what Fatal panics with; [onStand] turns it into an error.
type failure string

// onStand calls f with a stand. Whatever is wrong with a server or proxy is an
// error.
func onStand(program string, f func(*stand) error) (err error) {
	dir, err := os.MkdirTemp("", "fastlimit-redis-")
	if err != nil {
		return err
	}
	s := &stand{program: program, dir: dir}
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

// RedisServer is the program to start.
func (s *stand) RedisServer() string { return s.program }

// Helper does nothing: lines are of no interest here.
func (*stand) Helper() {}

// Fatal ends what runs on the stand. It must be called by the goroutine that
// does.
func (*stand) Fatal(args ...any) { panic(failure(fmt.Sprint(args...))) }

// Fatalf is Fatal with a format.
func (*stand) Fatalf(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }

// Cleanup calls f in the end, what was given last first.
func (s *stand) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

// TempDir returns a folder of its own.
func (s *stand) TempDir() string {
	dir, err := os.MkdirTemp(s.dir, "")
	if err != nil {
		s.Fatal(err)
	}
	return dir
}
