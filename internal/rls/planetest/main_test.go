package planetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

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
	dir, err := os.MkdirTemp("", "planetest")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := setUp(dir); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// output runs a command in the root of the repository, and has its output in the error.
func output(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = filepath.Join("..", "..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}
