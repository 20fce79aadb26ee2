package policy

import (
	"reflect"
	"strings"
	"testing"
)

// No field that importers reach is of a generic type of bart: see [trie].
func TestTriesAreHidden(t *testing.T) {
	t.Parallel()
	seen := map[reflect.Type]bool{}
	var walk func(ty reflect.Type, path string)
	walk = func(ty reflect.Type, path string) {
		if seen[ty] {
			return
		}
		seen[ty] = true
		if strings.HasPrefix(ty.PkgPath(), "github.com/gaissmai/bart") {
			t.Errorf("%s is a %v", path, ty)
		}
		switch ty.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map, reflect.Chan:
			walk(ty.Elem(), path)
		case reflect.Struct:
			for f := range ty.Fields() {
				walk(f.Type, path+"."+f.Name)
			}
		}
	}
	for _, ty := range []reflect.Type{reflect.TypeFor[Engine](), reflect.TypeFor[Bans](), reflect.TypeFor[Lists](), reflect.TypeFor[Identity]()} {
		walk(ty, ty.Name())
	}
	if len(seen) < 50 {
		t.Errorf("%d types were looked at", len(seen))
	}
}
