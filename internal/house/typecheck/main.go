// Command typecheck reports what does not compile on other systems, without compiling it: go build would make
// the standard library and all dependencies once more for each. Run it in the folder of a module:
//
//	go run ./internal/house/typecheck darwin windows
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

func main() {
	bad := false
	for _, system := range os.Args[1:] {
		if err := check(".", system); err != nil {
			fmt.Fprintf(os.Stderr, "GOOS=%s:\n%v\n", system, err)
			bad = true
		}
	}
	if bad {
		os.Exit(1)
	}
}

// goPackage is what go list says of a package.
type goPackage struct {
	Dir, ImportPath string
	GoFiles         []string
	ImportMap       map[string]string
	DepOnly         bool // it is not of the module
}

// check joins the errors of the module in a folder.
func check(dir, system string) error {
	cmd := exec.Command("go", "list", "-deps", "-json=Dir,ImportPath,GoFiles,ImportMap,DepOnly", "./...")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c := checker{files: token.NewFileSet(), known: map[string]*types.Package{"unsafe": types.Unsafe}}
	for list := json.NewDecoder(out); ; { // what a package imports comes before it
		var p goPackage
		if err := list.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return errors.Join(err, cmd.Wait())
		}
		if p.ImportPath != "unsafe" {
			c.check(&p)
		}
	}
	return errors.Join(append(c.errs, cmd.Wait())...)
}

// checker has seen some packages.
type checker struct {
	files *token.FileSet
	known map[string]*types.Package
	errs  []error
}

// check checks the types of a package; of a dependency those that others can see.
func (c *checker) check(p *goPackage) {
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(c.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			c.errs = append(c.errs, err)
			return
		}
		files = append(files, f)
	}
	config := types.Config{
		Importer:         importer{c.known, p.ImportMap},
		IgnoreFuncBodies: p.DepOnly,
		Sizes:            types.SizesFor("gc", runtime.GOARCH),
		Error:            func(err error) { c.errs = append(c.errs, err) },
	}
	c.known[p.ImportPath], _ = config.Check(p.ImportPath, c.files, files, nil)
}

// importer finds packages that were checked before, some of them by another name.
type importer struct {
	known map[string]*types.Package
	names map[string]string
}

// Import implements [types.Importer].
func (i importer) Import(path string) (*types.Package, error) {
	if name, ok := i.names[path]; ok {
		path = name
	}
	if p := i.known[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s is not known", path)
}
