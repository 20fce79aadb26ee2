package planetest

import (
	"os"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.AtOnce(8)
	os.Exit(run(m))
}
