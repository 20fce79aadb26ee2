package k8stest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// binary is the program, built once.
var binary string

func TestMain(m *testing.M) {
	testkit.AtOnce(8)
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "k8stest")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "fastlimit")
	cmd := exec.Command("go", "build", "-o", binary, "./cmd/fastlimit")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w\n%s", err, out)
	}
	return m.Run(), nil
}
