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
	found := 0
	for name := range strings.FieldsSeq(names) {
		found++
		if err := exec.Command("grep", "-rqE", "--include=*_test.go", "--exclude-dir=.tmp", "^func "+name+`\(`, ".").Run(); err != nil {
			t.Errorf(".ci/race: there is no %s: %v", name, err)
		}
	}
	if found < 20 {
		t.Errorf(".ci/race: only %d names found", found)
	}
}
