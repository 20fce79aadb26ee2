package screen

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/pty"
)

// watched returns a terminal and what was written to it so far.
func watched(t *testing.T) (program *os.File, shown *testkit.Log) {
	t.Helper()
	front, program := pty.Open(t, 60, 20)
	shown = new(testkit.Log)
	go func() { _, _ = io.Copy(shown, front) }() // ends with the terminal
	return program, shown
}

// The terminal is given back as it was, whatever ends what was on the screen.
func TestGivesBack(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(s *Screen){
		"close": func(s *Screen) { _ = s.Draw([]string{"a", "b"}) },
		"panic": func(*Screen) { panic("a bug") },
		"twice": func(s *Screen) { _ = s.Close() },
		"again": func(s *Screen) { _ = s.Enter() }, // somebody else had changed it
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program, shown := watched(t)
			before := pty.Modes(t, program)
			s, err := Open(program, program)
			if err != nil {
				t.Fatal(err)
			}
			if pty.Modes(t, program) == before {
				t.Error("the terminal is not in raw mode")
			}
			func() {
				defer func() { _ = recover() }()
				defer s.Close()
				use(s)
			}()
			if pty.Modes(t, program) != before {
				t.Error("the terminal is not as it was")
			}
			eventually(t, func() bool { return strings.HasSuffix(shown.String(), leave) })
			if !strings.HasPrefix(shown.String(), enter) || strings.Count(shown.String(), leave) != 1 {
				t.Errorf("%q", shown.String())
			}
			if err := s.Draw([]string{"late"}); err != nil || strings.Contains(shown.String(), "late") {
				t.Errorf("drawn after the end: %v, %q", err, shown.String())
			}
		})
	}
}

func TestDraw(t *testing.T) {
	t.Parallel()
	program, shown := watched(t)
	s, err := Open(program, program)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Draw([]string{"first", "second"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		return strings.HasSuffix(shown.String(), home+"first"+endOfLine+"\r\nsecond"+endOfLine+below)
	})
	if w, h := s.Size(); w != 60 || h != 20 {
		t.Errorf("%d x %d", w, h)
	}
}

func TestCapable(t *testing.T) {
	t.Parallel()
	_, program := pty.Open(t, 60, 20)
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if !Capable(program, program, "xterm") || Capable(program, program, "dumb") || Capable(file, program, "xterm") || Capable(program, file, "xterm") {
		t.Error("what is a terminal, and what is not, is not told apart")
	}
	if _, err := Open(file, file); err == nil {
		t.Error("a file was taken for a terminal")
	}
}
