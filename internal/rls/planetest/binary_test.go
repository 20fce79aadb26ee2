//go:build !image

package planetest

import (
	"os/exec"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/product"
)

// binary is the program, built once.
var binary string

func run(m *testing.M) int { return product.Run(m, &binary) }

func command() *exec.Cmd { return exec.Command(binary, "rls") }

// redisFor is none: the program counts in its memory.
func redisFor(*testing.T) string { return "none" }
