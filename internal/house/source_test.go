package house

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
	"strings"
	"sync"
	"testing"
)

// source is a package whose types are known from its source.
type source struct {
	Dir, ImportPath                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
	ImportMap                          map[string]string
	DepOnly                            bool // it is not of the module

	pkg  *types.Package
	uses map[*ast.Ident]types.Object
}

// sources checks the types of the module in a folder, without its tests, and of what it imports, as a system
// has them without cgo. Nothing is compiled: go build would make the standard library and all dependencies
// once more for each system. The packages of the module are returned, each behind those that it imports.
func sources(dir, system string) (own []*source, err error) {
	cmd := exec.Command("go", "list", "-deps", "-json=Dir,ImportPath,GoFiles,TestGoFiles,XTestGoFiles,ImportMap,DepOnly", "./...")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	c := checker{known: map[string]*types.Package{"unsafe": types.Unsafe}}
	for list := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := new(source)
		if err := list.Decode(p); errors.Is(err, io.EOF) {
			return own, errors.Join(c.errs...)
		} else if err != nil {
			return nil, err
		}
		if p.ImportPath != "unsafe" {
			c.check(p)
		}
		if !p.DepOnly {
			own = append(own, p)
		}
	}
}

// ownSources are those of the module on this system, checked once for all tests.
var ownSources = sync.OnceValues(func() ([]*source, error) { return sources(".", runtime.GOOS) })

func mustSources(t *testing.T) []*source {
	t.Helper()
	all, err := ownSources()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// checker has checked some packages.
type checker struct {
	files token.FileSet
	known map[string]*types.Package
	errs  []error
}

// check checks a package of the module, and of another one what others can see.
func (c *checker) check(p *source) {
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(&c.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			c.errs = append(c.errs, err)
			return
		}
		files = append(files, f)
	}
	info := &types.Info{}
	if !p.DepOnly {
		info.Uses = map[*ast.Ident]types.Object{}
	}
	config := types.Config{
		Importer:         finder{c.known, p.ImportMap},
		IgnoreFuncBodies: p.DepOnly,
		Sizes:            types.SizesFor("gc", runtime.GOARCH),
		Error:            func(err error) { c.errs = append(c.errs, err) },
	}
	p.pkg, _ = config.Check(p.ImportPath, &c.files, files, info)
	p.uses = info.Uses
	c.known[p.ImportPath] = p.pkg
}

// finder finds packages that were checked before, some of them by another name.
type finder struct {
	known map[string]*types.Package
	names map[string]string
}

// Import implements [types.Importer].
func (f finder) Import(path string) (*types.Package, error) {
	if name, ok := f.names[path]; ok {
		path = name
	}
	if p := f.known[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s is not known", path)
}

// The module compiles on the systems that developers have, beside the one that it is for.
func TestOtherSystems(t *testing.T) {
	t.Parallel()
	for _, system := range []string{"darwin", "windows"} {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			if _, err := sources(".", system); err != nil {
				t.Error(err)
			}
		})
	}
}

// Mistakes are found in the files of the system that is asked about, wherever they are, and only there.
func TestSources(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":        "module example\n\ngo 1.26\n",
		"main.go":       "package main\n\nimport \"example/deep\"\n\nfunc main() { println(deep.Name, first()) }\n",
		"other.go":      "//go:build !windows\n\npackage main\n\nimport \"os\"\n\nfunc first() string { return os.Args[0] }\n",
		"windows.go":    "//go:build windows\n\npackage main\n\nimport \"syscall\"\n\nfunc first() int { return syscall.Getuid(1) }\n",
		"deep/deep.go":  "package deep\n",
		"deep/plain.go": "//go:build !darwin\n\npackage deep\n\nconst Name = \"deep\"\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for system, want := range map[string]string{
		"linux":   "",
		"darwin":  "main.go:5:28: undefined: deep.Name",
		"windows": "windows.go:7:42: too many arguments in call to syscall.Getuid",
	} {
		if _, err := sources(dir, system); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v; want %q", system, err, want)
		}
	}
}
