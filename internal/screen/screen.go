// Package screen gives a program the whole terminal, in raw mode and on the alternate screen. Close restores
// it. Defer Close in the goroutine that draws, so that a panic there restores it too; signals are up to the
// caller.
package screen

import (
	"errors"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

const (
	// enter saves what was on the terminal, cuts long lines instead of wrapping them, and hides the cursor.
	enter = "\x1b[?1049h\x1b[?7l\x1b[?25l"
	leave = "\x1b[m\x1b[?25h\x1b[?7h\x1b[?1049l"

	home      = "\x1b[H"
	endOfLine = "\x1b[K"
	below     = "\x1b[J"
)

// Size of a terminal that does not report its own.
const (
	usualWidth  = 80
	usualHeight = 24
)

// Screen is a terminal. Its methods are for one goroutine at a time, except Close, which is safe for
// concurrent use.
type Screen struct {
	in, out *os.File

	mu     sync.Mutex
	before *term.State // nil: the terminal is restored; guarded by mu
}

// Capable reports whether both files are terminals that a [Screen] can use. name is the value of TERM.
func Capable(in, out *os.File, name string) bool {
	return supported && name != "dumb" && term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd()))
}

// Open takes over a terminal.
func Open(in, out *os.File) (*Screen, error) {
	s := &Screen{in: in, out: out}
	return s, s.Enter()
}

// Enter takes over the terminal again after [Screen.Close], or after another program has changed it.
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

// Close restores the terminal. A second call does nothing.
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

// Size returns the current number of columns and lines.
func (s *Screen) Size() (width, height int) {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width < 1 || height < 1 {
		return usualWidth, usualHeight
	}
	return width, height
}

// Draw shows lines from the top, in one write so that it does not flicker. Lines must fit the screen's width
// and height; escape sequences in them may only change colors.
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
