// Command check is "make check": it formats, builds, lints and tests what a change can
// break, and nothing else. That is the packages with changed files, those whose tests
// link them, those whose tests name a changed file that is not Go, and the tests of
// the house. What tries fastlimit between other programs, or measures it, is built, but
// tested only if its own files changed, as "make test" tests all. A change is what differs
// from BASE, which is main by default.
package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	base := os.Getenv("BASE")
	if base == "" {
		base = "main"
	}
	if err := check(base, os.Getenv("LINT"), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}

// check runs in the root of the work tree. lint is the path of golangci-lint.
func check(base, lint string, w io.Writer) error {
	files, err := changed(base)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		fmt.Fprintf(w, "nothing differs from %s; for the last commit of main: make check BASE=HEAD~1\n", base)
		return nil
	}
	if err := formatted(files); err != nil {
		return err
	}
	// The house does not run what it looks at, so it goes beside the rest.
	var out bytes.Buffer
	house := exec.Command("go", "test", "-vet=off", "-count=1", "./internal/house")
	house.Stdout, house.Stderr = &out, &out
	if err := house.Start(); err != nil {
		return err
	}
	err = concerned(files, lint, w)
	if failed := house.Wait(); failed != nil {
		err = errors.Join(err, fmt.Errorf("go test ./internal/house: %w", failed))
	}
	_, _ = out.WriteTo(w)
	return err
}

// concerned checks the packages that changed files concern.
func concerned(files []string, lint string, w io.Writer) error {
	folders, err := touched(files)
	if err != nil {
		return err
	}
	everything := slices.ContainsFunc(files, isModFile)
	for _, module := range modules {
		p, err := list(module, folders, everything)
		if err != nil {
			return err
		}
		if len(p.changed)+len(p.linking) == 0 {
			continue
		}
		fmt.Fprintf(w, "module %s: %d packages changed, tests of %d link them\n", module, len(p.changed), len(p.linking))
		if err := p.check(module, lint); err != nil {
			return err
		}
	}
	return nil
}

// modules are the folders of the modules of this repository.
var modules = []string{".", "bench/peers", "deploy/k8stest", "deploy/release", "internal/rls/planetest", "middleware/grpc", "server/http2spec", "server/pagetest"}

// isModFile reports whether every package may change with the file.
func isModFile(file string) bool {
	base := filepath.Base(file)
	return base == "go.mod" || base == "go.sum"
}

// changed returns the files that differ from the commit where this branch left base,
// those that git does not know yet included.
func changed(base string) ([]string, error) {
	fork, err := output("git", "merge-base", "HEAD", base)
	if err != nil {
		return nil, fmt.Errorf("no branch or commit %s to compare with, name one: make check BASE=HEAD~1: %w", base, err)
	}
	known, err := output("git", "diff", "--name-only", "--no-renames", fork)
	if err != nil {
		return nil, err
	}
	unknown, err := output("git", "ls-files", "--others", "--exclude-standard")
	return slices.Concat(strings.Fields(known), strings.Fields(unknown)), err
}

// formatted reports Go files that gofmt would change.
func formatted(files []string) error {
	args := []string{"-l"}
	for _, file := range files {
		if _, err := os.Stat(file); err == nil && strings.HasSuffix(file, ".go") {
			args = append(args, file)
		}
	}
	if len(args) == 1 {
		return nil
	}
	out, err := output("gofmt", args...)
	if err == nil && out != "" {
		err = fmt.Errorf("not formatted, make fix does it:\n%s", out)
	}
	return err
}

// touched returns the folders of the packages that the files belong to: the nearest
// folder with Go files for what is compiled or read from testdata, and for a page, a
// script or a recipe the folders of the tests that name it.
func touched(files []string) ([]string, error) {
	var folders []string
	for _, file := range files {
		switch filepath.Ext(file) {
		case ".go", ".lua", ".sql":
			folders = append(folders, folder(file))
			continue
		}
		if strings.HasPrefix(file, "testdata/mutants/") {
			folders = append(folders, "internal/house/mutants")
			continue
		}
		if strings.Contains("/"+file, "/testdata/") {
			folders = append(folders, folder(file))
		}
		tests, err := output("git", "grep", "-lF", filepath.Base(file), "--", "*_test.go")
		if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) { // it exits with 1 if no test does
			return nil, err
		}
		for test := range strings.FieldsSeq(tests) {
			folders = append(folders, filepath.Dir(test))
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders), nil
}

// folder returns the nearest folder above a file that has Go files.
func folder(file string) string {
	for dir := filepath.Dir(file); ; dir = filepath.Dir(dir) {
		if found, _ := filepath.Glob(filepath.Join(dir, "*.go")); len(found) > 0 || dir == "." {
			return dir
		}
	}
}

// outside are trees whose tests try fastlimit between other programs, or measure it.
var outside = []string{"bench", "deploy/k8stest", "deploy/release", "docs/recipes", "internal/rls/planetest", "server/http2spec", "server/pagetest"}

func isOutside(path string) bool {
	return slices.ContainsFunc(outside, func(tree string) bool {
		return strings.HasPrefix(path+"/", modulePath+"/"+tree+"/")
	})
}

// packages are those of one module that a change concerns.
type packages struct {
	changed []string // folders of those with changed files
	linking []string // import paths of those whose test binaries link one of them
}

// list asks the go command which packages of a module the changed folders concern.
func list(module string, folders []string, everything bool) (p packages, err error) {
	is := map[string]bool{}
	for _, dir := range folders {
		is[modulePath+strings.TrimSuffix("/"+filepath.ToSlash(dir), "/.")] = true
	}
	cmd := exec.Command("go", "list", "-test", "-f", `{{.ImportPath}} {{.Dir}} {{join .Deps " "}}`, "./...")
	cmd.Dir, cmd.Stderr = module, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return p, fmt.Errorf("go list in %s: %w", module, err)
	}
	links := map[string]int{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		path, test := strings.CutSuffix(fields[0], ".test")
		switch {
		case strings.HasPrefix(fields[1], "["), path == modulePath+"/internal/house":
			// A package as compiled for a test, and the tests that always run.
		case test && isOutside(path) && !is[path]:
		case test && (everything || slices.ContainsFunc(fields[2:], func(dep string) bool { return is[dep] })):
			p.linking = append(p.linking, path)
			links[path] = len(fields)
		case !test && is[path]:
			p.changed = append(p.changed, fields[1])
		}
	}
	// Those that link the most take the longest: begun first, none of them runs alone at the end.
	slices.SortFunc(p.linking, func(a, b string) int { return cmp.Compare(links[b], links[a]) })
	return p, nil
}

// check builds, lints and tests them.
func (p packages) check(module, lint string) error {
	// Unlike go build, this links no programs, which is half of that command's work.
	if err := run(module, "go", "list", "-export", "-f", "{{with .Error}}{{.}}{{end}}", "./..."); err != nil {
		return err
	}
	if len(p.changed) > 0 {
		if err := run(module, lint, append([]string{"run"}, p.changed...)...); err != nil {
			return err
		}
	}
	if len(p.linking) == 0 {
		return nil
	}
	return run(module, "go", append([]string{"test", "-short", "-vet=off", "-p=3", "-parallel=8"}, p.linking...)...)
}

const modulePath = "github.com/fastlimit/fastlimit"

func output(name string, args ...string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && stderr.Len() > 0 {
		err = fmt.Errorf("%s %s: %w: %s", name, args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(string(out)), err
}

func run(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("in %s: %s %s: %w", dir, filepath.Base(name), args[0], err)
	}
	return nil
}
