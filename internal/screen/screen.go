// Package screen has a whole terminal for a program: in raw mode, on the alternate screen.
// Close gives it back as it was. Call Close by defer in the goroutine that draws, so that a
// panic there gives it back too; signals are the caller's.
package screen

import (
	"errors"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

const (
	// enter keeps what was on the terminal, has long lines cut instead of wrapped, and
	// hides the cursor.
	enter = "\x1b[?1049h\x1b[?7l\x1b[?25l"
	leave = "\x1b[m\x1b[?25h\x1b[?7h\x1b[?1049l"

	home      = "\x1b[H"
	endOfLine = "\x1b[K"
	below     = "\x1b[J"
)

// Sizes of a terminal that does not know its own.
const (
	usualWidth  = 80
	usualHeight = 24
)

// Screen is a terminal. Its methods are for one goroutine at a time, but for Close, which is
// safe for concurrent use.
type Screen struct {
	in, out *os.File

	mu     sync.Mutex
	before *term.State // nil: the terminal is as it was; guarded by mu
}

// Capable reports whether both files are terminals that a [Screen] can be on. name is the
// value of TERM.
func Capable(in, out *os.File, name string) bool {
	return supported && name != "dumb" && term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd()))
}

// Open takes a terminal.
func Open(in, out *os.File) (*Screen, error) {
	s := &Screen{in: in, out: out}
	return s, s.Enter()
}

// Enter takes the terminal again after [Screen.Close], or after somebody else has changed
// it.
func (s *Screen) Enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, err := term.MakeRaw(int(s.in.Fd()))
	if err != nil {
		return err
	}
	if s.before == nil {
		s.before = was
	}
	_, err = s.out.WriteString(enter)
	return err
}

// Close gives the terminal back as it was. A second call does nothing.
func (s *Screen) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.before == nil {
		return nil
	}
	_, err := s.out.WriteString(leave)
	err = errors.Join(err, term.Restore(int(s.in.Fd()), s.before))
	s.before = nil
	return err
}

// Size is how many columns and lines there are now.
func (s *Screen) Size() (width, height int) {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width < 1 || height < 1 {
		return usualWidth, usualHeight
	}
	return width, height
}

// Draw shows lines from the top, in one write so that it does not flicker. Lines must be
// no longer than the screen is wide, and no more than it is high; escape sequences in them
// may change colors only.
//
// After Close it does nothing.
func (s *Screen) Draw(lines []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.before == nil {
		return nil
	}
	_, err := s.out.WriteString(home + strings.Join(lines, endOfLine+"\r\n") + endOfLine + below)
	return err
}
