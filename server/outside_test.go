package server

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A module that is not this one builds a server: ExampleNew, as a program of its
// own.
func TestAnotherModuleBuildsAServer(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	example := read("example_new_test.go")
	program := strings.NewReplacer("package server_test", "package main", "func ExampleNew()", "func main()").Replace(example)
	_, output, _ := strings.Cut(example, "// Output:\n")
	output = strings.TrimSuffix(strings.ReplaceAll(output, "\t// ", ""), "}\n")

	const module = "github.com/fastlimit/fastlimit"
	mod := strings.Replace(read("../go.mod"), "module "+module, "module example.com/outside", 1) +
		"\nrequire " + module + " v0.0.0\nreplace " + module + " => " + root + "\n"
	dir := t.TempDir()
	for name, text := range map[string]string{"main.go": program, "go.mod": mod, "go.sum": read("../go.sum")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	goCmd := func(args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, errs.String())
		}
		return string(out)
	}
	if got := goCmd("run", "."); got != output {
		t.Errorf("got\n%swant\n%s", got, output)
	}
	// It links neither Redis nor gossip, which only a command wires.
	for dep := range strings.FieldsSeq(goCmd("list", "-deps", ".")) {
		for _, banned := range []string{"github.com/redis/", "github.com/hashicorp/", "github.com/goccy/go-yaml", module + "/internal/config"} {
			if strings.HasPrefix(dep, banned) {
				t.Errorf("it links %s", dep)
			}
		}
	}
}
