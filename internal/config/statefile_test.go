package config

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestStateFile: a file that cannot be written is an error at its place, and one that others
// may read a warning.
func TestStateFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	parse := func(path string) (*Config, error) {
		return parse("f.yaml", fmt.Appendf(nil, "state_file: %s\nrules: [{name: a, rate: 1/s}]", path), nil, thisMachine())
	}
	c, err := parse(path)
	if err != nil || c.StateFile != path || len(c.fileWarnings) > 0 {
		t.Fatalf("%v, %v", c, err)
	}
	for at, want := range map[string]string{
		filepath.Join(dir, "no", "state"): `f.yaml:1:13: state_file: "` + filepath.Join(dir, "no", "state") + `" is in "` + filepath.Join(dir, "no") + `": `,
		dir:                               "is a directory; name a file in a directory that exists",
	} {
		if _, err := parse(at); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", at, err, want)
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil { // too much, on purpose
		t.Fatal(err)
	}
	if c, err = parse(path); err != nil || len(c.fileWarnings) != 1 || !strings.Contains(c.fileWarnings[0], "mode 0644") {
		t.Errorf("a file that all may read: %v, %v", c.fileWarnings, err)
	}
}
