package house

import (
	"go/types"
	"strings"
	"testing"
)

// What another module imports is made of types that it can name: no exported
// signature has one of a package below internal/.
func TestExportedSignaturesArePublic(t *testing.T) {
	t.Parallel()
	for _, p := range mustSources(t) {
		name := (&goPackage{ImportPath: p.ImportPath}).name()
		if internal(p.ImportPath) || p.pkg.Name() == "main" || within(name, "cmd/...", "bench/...", "docs/...") {
			continue
		}
		for _, exported := range p.pkg.Scope().Names() {
			if o := p.pkg.Scope().Lookup(exported); o.Exported() {
				s := signatures{t: t, of: name + "." + exported, seen: map[types.Type]bool{}}
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
