//go:build !image

package planetest

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// binary is the program, built once.
var binary string

func setUp(dir string) error {
	binary = filepath.Join(dir, "fastlimit")
	return output("go", "build", "-o", binary, "./cmd/fastlimit")
}

func command() *exec.Cmd { return exec.Command(binary, "rls") }

// redisFor is none: the program counts in its memory.
func redisFor(*testing.T) string { return "none" }
