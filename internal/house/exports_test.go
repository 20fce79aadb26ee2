package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// unusedExports is how many exported names packages that nobody outside of this
// module imports have without a user outside their package: 29 before they were
// counted. It only falls.
const unusedExports = 2

// rootNames and ruleMethods bound what the root package exports: types, functions, methods,
// constants and variables, and the methods of Rule. Each is a promise to embedders.
// What only this module needs is in internal/engine; bounds and sizes are package limit's.
const rootNames, ruleMethods = 85, 19

// Nobody outside of this module can import internal packages, and those under
// sync are for commands: what is exported there is for another package of the
// module, or should not be. Public packages are listed with -v, for judgement.
func TestExportedNamesAreUsed(t *testing.T) {
	t.Parallel()
	unused := map[bool][]string{}
	for _, p := range checkedPackages(t) {
		name := (&goPackage{ImportPath: p.pkg.Path()}).name()
		if name == "." {
			checkSmall(t, p.pkg.Scope())
		}
		if p.pkg.Name() == "main" || within(name, "internal/testkit/...", "bucket/storetest/...", "bench/...", "internal/rls/api") {
			continue // for tests, programs, and generated
		}
		private := within(name, "internal/...", "sync/...")
		for _, n := range p.unused {
			unused[private] = append(unused[private], name+": "+n)
		}
	}
	t.Logf("public packages, %d:\n%s", len(unused[false]), strings.Join(unused[false], "\n"))
	if n := len(unused[true]); n > unusedExports {
		t.Errorf("%d exported names have no user outside their package, want at most %d: unexport them\n%s", n, unusedExports, strings.Join(unused[true], "\n"))
	}
}

// checkSmall counts what the root exports.
func checkSmall(t *testing.T, root *types.Scope) {
	t.Helper()
	names, methods := 0, map[string]int{}
	for _, name := range root.Names() {
		o := root.Lookup(name)
		if !o.Exported() {
			continue
		}
		names++
		if named, ok := o.Type().(*types.Named); ok && enum(o) == nil {
			for m := range named.Methods() {
				if m.Exported() {
					methods[name]++
				}
			}
		}
		names += methods[name]
	}
	if names > rootNames || methods["Rule"] > ruleMethods {
		t.Errorf("the root exports %d names, and Rule has %d methods, want at most %d and %d", names, methods["Rule"], rootNames, ruleMethods)
	}
}

// checkedPackage is a package of this module with the exported names that no
// other package of it names.
type checkedPackage struct {
	pkg    *types.Package
	unused []string
}

// checkedPackages are those of the module. What tests name counts too.
func checkedPackages(t *testing.T) (all []*checkedPackage) {
	t.Helper()
	own := mustSources(t)
	byPath := map[string]*types.Package{}
	used := users{map[types.Object]bool{}, map[types.Type]bool{}}
	for _, p := range own {
		byPath[p.ImportPath] = p.pkg
		for _, o := range p.uses {
			if o.Pkg() != p.pkg {
				used.use(o)
			}
		}
	}
	for _, p := range own {
		for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			used.useInTest(f, p.ImportPath, byPath)
		}
	}
	for _, p := range own {
		c := &checkedPackage{pkg: p.pkg}
		scope := c.pkg.Scope()
		for _, name := range scope.Names() {
			if o := scope.Lookup(name); o.Exported() && !used.named[o] && !used.named[enum(o)] {
				c.unused = append(c.unused, name)
			}
		}
		slices.Sort(c.unused)
		all = append(all, c)
	}
	return all
}

// enum is the type of a constant, nil for other objects and for types that have no
// name: an enumeration is exported as a whole.
func enum(o types.Object) types.Object {
	if _, ok := o.(*types.Const); !ok {
		return nil
	}
	if t, ok := o.Type().(*types.Named); ok {
		return t.Obj()
	}
	return nil
}

// users knows what packages use of others.
type users struct {
	named map[types.Object]bool
	seen  map[types.Type]bool
}

// use marks an object of this module that another package names.
func (u users) use(o types.Object) {
	if o.Pkg() != nil && strings.HasPrefix(o.Pkg().Path(), module) {
		u.named[o] = true
		u.useType(o.Type())
	}
}

// useInTest marks what a test of a package names of others. Tests are not
// type-checked: a name behind that of an import is enough.
func (u users) useInTest(f *ast.File, of string, byPath map[string]*types.Package) {
	imported := map[string]*types.Package{}
	for _, spec := range f.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if p := byPath[path]; err == nil && p != nil && path != of {
			imported[p.Name()] = p
			if spec.Name != nil {
				imported[spec.Name.Name] = p
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && imported[x.Name] != nil {
				if o := imported[x.Name].Scope().Lookup(sel.Sel.Name); o != nil {
					u.use(o)
				}
			}
		}
		return true
	})
}

// useType marks the types that whoever uses one gets without naming them: those
// of fields, elements, parameters and results.
func (u users) useType(t types.Type) {
	if u.seen[t] {
		return
	}
	u.seen[t] = true
	switch t := t.(type) {
	case *types.Named:
		o := t.Origin().Obj()
		if o.Pkg() == nil || !strings.HasPrefix(o.Pkg().Path(), module) {
			return
		}
		u.named[o] = true
		for m := range t.Origin().Methods() {
			if m.Exported() {
				u.useType(m.Type())
			}
		}
		u.useType(t.Origin().Underlying())
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() {
				u.useType(f.Type())
			}
		}
	case *types.Signature:
		u.useType(t.Params())
		u.useType(t.Results())
	case *types.Tuple:
		for v := range t.Variables() {
			u.useType(v.Type())
		}
	case *types.Interface:
		for m := range t.Methods() {
			u.useType(m.Type())
		}
	case *types.Map:
		u.useType(t.Key())
		u.useType(t.Elem())
	case interface{ Elem() types.Type }:
		u.useType(t.Elem())
	}
}
