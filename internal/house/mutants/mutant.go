package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// mutant is one mistake. Its file begins with these lines, then follows the diff:
//
//	# <one sentence: which guarantee this breaks>
//	# package: ./bucket
//	# test: TestA|TestB
//	# flags: -short               (may be left out)
//	# module: middleware/grpc     (likewise)
type mutant struct {
	name   string // area/name
	file   string // absolute
	breaks string
	pkg    string // within the module
	test   string // names or patterns of tests, joined by |
	flags  []string
	module string // its folder
}

// readAll reads all mutants, and names all that is wrong with any.
func readAll(dir string) (all []mutant, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.diff"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no %s/<area>/<name>.diff", dir)
	}
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		m, err := parse(string(text))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
		}
		if m.file, err = filepath.Abs(file); err != nil {
			return nil, err
		}
		m.name = filepath.Base(filepath.Dir(file)) + "/" + strings.TrimSuffix(filepath.Base(file), ".diff")
		all = append(all, m)
	}
	return all, errors.Join(errs...)
}

// parse reads the lines before the diff.
func parse(text string) (m mutant, err error) {
	head, _, found := strings.Cut("\n"+text, "\ndiff --git ")
	if !found {
		return m, errors.New(`no line "diff --git": make it with git diff`)
	}
	m.module = "."
	var errs []error
	for i, line := range strings.Split(strings.TrimSpace(head), "\n") {
		line, comment := strings.CutPrefix(line, "# ")
		key, value, _ := strings.Cut(line, ": ")
		switch value = strings.TrimSpace(value); {
		case !comment:
		case i == 0:
			m.breaks = line
		case key == "package":
			m.pkg = value
		case key == "test":
			m.test = value
		case key == "flags":
			m.flags = strings.Fields(value)
		case key == "module":
			m.module = value
		default:
			errs = append(errs, fmt.Errorf("line %q: want # package:, # test:, # flags: or # module: here", "# "+line))
		}
	}
	return m, errors.Join(append(errs, m.complete())...)
}

// complete reports what the lines before the diff lack.
func (m *mutant) complete() error {
	var errs []error
	for _, want := range []struct{ value, what string }{
		{m.breaks, "# <the guarantee that this breaks>, in the first line"},
		{m.pkg, "# package: ./..."},
		{m.test, "# test: Test..."},
	} {
		if want.value == "" || strings.HasPrefix(want.value, "package:") || strings.HasPrefix(want.value, "test:") {
			errs = append(errs, fmt.Errorf("no line %q", want.what))
		}
	}
	for _, name := range m.tests() {
		if _, err := regexp.Compile(name); err != nil {
			errs = append(errs, fmt.Errorf("test %q: %w", m.test, err))
		}
	}
	return errors.Join(errs...)
}

// tests returns the patterns of the names of the tests, each for a whole name. What
// stands behind a slash is the name of a subtest.
func (m *mutant) tests() (patterns []string) {
	for name := range strings.SplitSeq(m.test, "|") {
		name, _, _ = strings.Cut(name, "/")
		patterns = append(patterns, "^"+name+"$")
	}
	return patterns
}

// pattern is what "go test -run" gets.
func (m *mutant) pattern() string {
	return "^(" + strings.ReplaceAll(m.test, "/", ")$/^(") + ")$"
}
