// Package house holds the tests of what is true of the module as a whole: which
// package may import which, what may be exported, how long files are, and that the
// documents name what exists. They read the tree, so they run in its root, and
// "make check" runs them for every change.
package house

import (
	"log"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		log.Fatal(err)
	}
	m.Run()
}
