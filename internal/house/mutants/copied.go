package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mirror makes dir a copy of the files of the work tree that git does not ignore. It
// also removes what an interrupted run left there.
func mirror(dir string) error {
	out, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	keep := map[string]bool{}
	for file := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if err := copyFile(file, filepath.Join(dir, file)); errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and git was not told
		} else if err != nil {
			return err
		}
		keep[filepath.Join(dir, file)] = true
	}
	return filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !keep[file] {
			err = os.Remove(file)
		}
		return err
	})
}

// copyFile writes only what differs.
func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(to); err == nil && bytes.Equal(old, text) {
		return nil
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode())
}

// copied is a copy of the work tree where mistakes can be made.
type copied struct {
	dir string
	env []string // so that git takes it for files outside of any repository
}

func newCopied(dir string) (c copied, err error) {
	if c.dir, err = filepath.Abs(dir); err != nil {
		return c, err
	}
	if c.dir, err = filepath.EvalSymlinks(c.dir); err != nil {
		return c, err
	}
	c.env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "GIT_DIR=") || strings.HasPrefix(v, "GIT_WORK_TREE=") || strings.HasPrefix(v, "GIT_INDEX_FILE=")
	})
	c.env = append(c.env, "GIT_CEILING_DIRECTORIES="+filepath.Dir(c.dir))
	return c, nil
}

// A verdict is what became of a mutant.
type verdict string

const (
	caught    verdict = "caught"
	hung      verdict = "hung" // caught too: by its timeout
	survived  verdict = "SURVIVED"
	noCompile verdict = "does not compile"
	noApply   verdict = "does not apply"
	noTest    verdict = "test not found"
	noFailure verdict = "ended otherwise" // the process was killed, say
)

// timeout is for all tests of one mutant: without it they take seconds.
const timeout = "5m"

// try makes one mistake, runs its test, and takes the mistake back. It also returns
// what git or the go command said.
func (c copied) try(m mutant) (v verdict, said string, err error) {
	said, err = c.git("apply", "--whitespace=nowarn", m.file)
	if err != nil {
		return noApply, said, nil // that is the verdict
	}
	said, err = c.goTest(m, m.pattern(), "-failfast")
	v = judge(said, err)
	if out, err := c.git("apply", "--whitespace=nowarn", "--reverse", m.file); err != nil {
		return v, said, fmt.Errorf("%s cannot be taken back: %w: %s", m.name, err, out)
	}
	return v, said, nil
}

// judge reads what go test printed.
func judge(out string, err error) verdict {
	switch {
	case err == nil && strings.Contains(out, "testing: warning: no tests to run"):
		return noTest
	case err == nil:
		return survived
	case strings.Contains(out, "[build failed]"), strings.Contains(out, "[setup failed]"):
		return noCompile
	case strings.Contains(out, "panic: test timed out after "+timeout):
		return hung
	case strings.Contains(out, "--- FAIL: "), strings.Contains(out, "panic: "), strings.Contains(out, "fatal error: "):
		return caught
	}
	return noFailure
}

// pass runs the tests of mutants of one package at once, without a mutant.
func (c copied) pass(all []mutant) error {
	var patterns []string
	for _, m := range all {
		patterns = append(patterns, m.tests()...)
	}
	slices.Sort(patterns)
	out, err := c.goTest(all[0], strings.Join(slices.Compact(patterns), "|"), "-v")
	if err != nil {
		return fmt.Errorf("%s without a mutant: %w:\n%s", all[0].pkg, err, out)
	}
	var errs []error
	for _, m := range all {
		for _, name := range m.tests() {
			if ran := regexp.MustCompile("(?m)^=== RUN +" + name[1:]); !ran.MatchString(out) {
				errs = append(errs, fmt.Errorf("%s: %s has no test %s", m.name, m.pkg, strings.Trim(name, "^$")))
			}
		}
	}
	return errors.Join(errs...)
}

func (c copied) goTest(m mutant, pattern string, flags ...string) (string, error) {
	args := append([]string{"test", "-vet=off", "-count=1", "-timeout=" + timeout, "-run=" + pattern}, flags...)
	return c.run(m.module, "go", append(append(args, m.flags...), m.pkg)...)
}

func (c copied) git(args ...string) (string, error) { return c.run(".", "git", args...) }

func (c copied) run(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = filepath.Join(c.dir, dir), c.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}
