//go:build linux

package banbench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	if err := (Options{}).Check(); err != nil {
		t.Error(err)
	}
	for _, o := range []Options{{Rate: 0.5}, {Duration: time.Millisecond}, {Quiet: time.Millisecond}, {Sources: []int{1, 0}}, {Sources: []int{1 << 17}}, {Servers: []string{"apache"}}} {
		if err := o.Check(); err == nil {
			t.Errorf("%+v is valid", o)
		}
	}
}

// Every contender's templates can be filled in, and say what it is measured for.
func TestTemplates(t *testing.T) {
	t.Parallel()
	for _, c := range contenders {
		s := &site{contender: c, Dir: t.TempDir(), Fastlimit: "/fastlimit"}
		if err := s.configure(); err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for _, name := range c.files {
			b, err := os.ReadFile(filepath.Join(s.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			all.Write(b)
		}
		for _, line := range append(c.commands, c.ready) {
			all.WriteString(s.expand(line))
		}
		text := all.String()
		drops := strings.Contains(text, "kernel:") || strings.Contains(text, "silent-drop") || strings.Contains(text, "fail2ban")
		if drops != c.shuts || strings.Contains(text, "<no value>") {
			t.Errorf("%s shuts floods out: %v:\n%s", c.id, c.shuts, text)
		}
		if bans := strings.Contains(text, "ban: {"); bans != (c.id == "fastlimit" || c.id == "fastlimit-memory") {
			t.Errorf("%s bans: %v", c.id, bans)
		}
	}
}

// The CPU time of commands that have ended is their parent's.
func TestEnded(t *testing.T) {
	t.Parallel()
	if d := ended(os.Getpid()); d < 0 || d > time.Hour {
		t.Errorf("%v", d)
	}
	if d := ended(1 << 30); d != 0 {
		t.Errorf("%v of a process that is not there", d)
	}
}
