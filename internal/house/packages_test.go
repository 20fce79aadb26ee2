package house

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/fastlimit/fastlimit"

// goPackage is what "go list" tells of a package of this module.
type goPackage struct {
	ImportPath, Dir                                    string
	GoFiles, TestGoFiles, XTestGoFiles, IgnoredGoFiles []string
	Imports, Deps                                      []string
}

// name is the path within the module, "." for the root.
func (p *goPackage) name() string {
	if p.ImportPath == module {
		return "."
	}
	return strings.TrimPrefix(p.ImportPath, module+"/")
}

func (p *goPackage) files() []string {
	return slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles, p.IgnoredGoFiles)
}

// packages lists the module once for all tests.
var packages = sync.OnceValues(func() ([]*goPackage, error) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles,IgnoredGoFiles,Imports,Deps", "./...").Output()
	if err != nil {
		return nil, err
	}
	var all []*goPackage
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := new(goPackage)
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
})

func mustPackages(t *testing.T) []*goPackage {
	t.Helper()
	all, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// within tells whether a package is in one of the trees. "." is the root
// package alone, "x" package x alone and "x/..." all below x too.
func within(name string, trees ...string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool {
		root, deep := strings.CutSuffix(tree, "/...")
		return name == root || deep && strings.HasPrefix(name, root+"/")
	})
}
