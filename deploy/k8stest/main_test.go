package k8stest

import (
	"os"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/product"
)

// binary is the program, built once.
var binary string

func TestMain(m *testing.M) {
	testkit.AtOnce(8)
	os.Exit(product.Run(m, &binary))
}
