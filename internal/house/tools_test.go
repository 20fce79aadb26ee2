package house

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What "make race" leaves out by name exists.
func TestRaceLeavesOutWhatExists(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile(".ci/race")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(script), "alone='")
	names, _, _ := strings.Cut(rest, "'")
	out, err := exec.Command("grep", "-rhoE", "--include=*_test.go", "--exclude-dir=.tmp", `^func (Test|Fuzz)[A-Za-z0-9_]*\(`, ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for name := range strings.FieldsSeq(names) {
		found++
		if !strings.Contains(string(out), "func "+name+"(") {
			t.Errorf(".ci/race: there is no %s", name)
		}
	}
	if found < 20 {
		t.Errorf(".ci/race: only %d names found", found)
	}
}

// An exception names a linter that is on: any other excepts nothing.
func TestExceptionsAreOfLintersInUse(t *testing.T) {
	t.Parallel()
	config, err := os.ReadFile(".golangci.yml")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(config), "\n  enable:\n")
	on, _, _ := strings.Cut(rest, "\n  settings:\n")
	out, err := exec.Command("git", "grep", "-noE", "//nolint:[a-z0-9,]+", "--", "*.go").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		at, names, ok := strings.Cut(strings.TrimSpace(line), "//nolint:")
		for name := range strings.SplitSeq(names, ",") {
			if !ok || !strings.Contains(on, "    - "+name+" ") && !strings.Contains(on, "    - "+name+"\n") {
				t.Errorf("%s excepts %s, which is not on", at, name)
			}
		}
	}
}
