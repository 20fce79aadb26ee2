// Package outside compiles programs as somebody would who imports this module:
// what they need must be public, and go.mod must carry it.
package outside

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Build compiles and links a main package in a module of its own, which replaces
// this module by the tree under test. It reads nothing from the network: what
// the program needs, this module needs too.
func Build(t *testing.T, program string) {
	t.Helper()
	root := tree(t)
	dir := t.TempDir()
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/fastlimit/fastlimit"
	for name, text := range map[string]string{
		"main.go": program,
		"go.sum":  string(sums),
		"go.mod":  "module example.com/outside\n\ngo 1.26.0\n\nrequire " + module + " v0.0.0\n\nreplace " + module + " => " + root + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "program"), ".")
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("a program outside of the module does not build: %v\n%s", err, out)
	}
}

// tree is the root of this module.
func tree(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(strings.TrimSpace(string(out)))
}
