package house

import (
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What another module imports is made of types that it can name: no exported
// signature has one of a package below internal/.
func TestExportedSignaturesArePublic(t *testing.T) {
	t.Parallel()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}
	var public []*goPackage
	for _, p := range mustPackages(t) {
		if !internal(p.ImportPath) && len(p.GoFiles) > 0 && !within(p.name(), "cmd/...", "bench/...", "docs/...") {
			public, args = append(public, p), append(args, p.ImportPath)
		}
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	compiled := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		compiled[path] = file
	}
	imp := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(compiled[path]) })
	for _, p := range public {
		pkg, err := imp.Import(p.ImportPath)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range pkg.Scope().Names() {
			if o := pkg.Scope().Lookup(name); o.Exported() {
				s := signatures{t: t, of: p.name() + "." + name, seen: map[types.Type]bool{}}
				s.declared(o)
			}
		}
	}
}

func internal(path string) bool { return strings.Contains(path+"/", "/internal/") }

// signatures walks what another module sees of one exported name.
type signatures struct {
	t    *testing.T
	of   string
	seen map[types.Type]bool
}

// declared walks the declaration of an exported name. A type of an internal
// package may have a public name, as an alias.
func (s *signatures) declared(o types.Object) {
	named, ok := types.Unalias(o.Type()).(*types.Named)
	if _, isType := o.(*types.TypeName); !isType || !ok {
		s.uses(o.Type())
		return
	}
	s.uses(named.Underlying())
	for m := range named.Methods() {
		if m.Exported() {
			s.uses(m.Type())
		}
	}
}

// uses walks a type to the names in it.
func (s *signatures) uses(t types.Type) {
	if s.seen[t] {
		return
	}
	s.seen[t] = true
	switch t := t.(type) {
	case *types.Alias:
		s.named(t.Obj())
	case *types.Named:
		s.named(t.Obj())
		for arg := range t.TypeArgs().Types() {
			s.uses(arg)
		}
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() {
				s.uses(f.Type())
			}
		}
	case *types.Interface:
		for m := range t.Methods() {
			s.uses(m.Type())
		}
	case *types.Signature:
		s.uses(t.Params())
		s.uses(t.Results())
	case *types.Tuple:
		for v := range t.Variables() {
			s.uses(v.Type())
		}
	case *types.Map:
		s.uses(t.Key())
		s.uses(t.Elem())
	case interface{ Elem() types.Type }: // pointer, slice, array, channel
		s.uses(t.Elem())
	}
}

func (s *signatures) named(o types.Object) {
	if o.Pkg() != nil && internal(o.Pkg().Path()) {
		s.t.Errorf("%s shows %s.%s, which no other module can name", s.of, o.Pkg().Path(), o.Name())
	}
}
