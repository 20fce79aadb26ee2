// Package product builds fastlimit for tests that run it as users do.
package product

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// built tells a test binary that runs itself again where the program is.
const built = "FASTLIMIT_TEST_BINARY"

// Run runs tests with the program at *path, and returns their exit code.
func Run(m *testing.M, path *string) int {
	if *path = os.Getenv(built); *path != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "fastlimit")
	if err == nil {
		defer os.RemoveAll(dir)
		*path, err = build(dir)
	}
	if err = errors.Join(err, os.Setenv(built, *path)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build builds cmd/fastlimit into dir and returns the path of the program. To link it
// takes seconds, which the go command saves where it finds the same program at that path:
// so the last one is kept in .tmp of the repository, and copied. Several processes may
// call it at once.
func build(dir string) (path string, err error) {
	root, err := findRoot()
	if err != nil {
		return "", err
	}
	path, kept := filepath.Join(dir, "fastlimit"), filepath.Join(root, ".tmp", "test", "fastlimit")
	_ = copyFile(path, kept) // there may be none yet
	before, _ := os.Stat(path)
	cmd := exec.Command("go", "build", "-o", path, "./cmd/fastlimit")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	if after, err := os.Stat(path); err != nil || before != nil && os.SameFile(before, after) {
		return path, err
	}
	return path, keep(path, kept)
}

// keep replaces kept by a copy of path, at once for whoever reads it.
func keep(path, kept string) error {
	if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(kept), "new")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	whole := filepath.Join(dir, "fastlimit")
	return errors.Join(copyFile(whole, path), os.Rename(whole, kept))
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// findRoot returns the folder of the repository, in which the working directory is.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "fastlimit", "main.go")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("the working directory is not in the repository of fastlimit")
		}
	}
	return "", err
}
