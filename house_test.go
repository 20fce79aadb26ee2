package fastlimit_test

import (
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
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

// layers says what packages of this module a tree may import: arrows point
// down. A tree that is not listed, cmd for one, may import all but what keep
// reserves.
var layers = []struct {
	tree string
	may  []string
	why  string
}{
	{"internal/field", nil, "an error that every package may return"},
	{"sketch", nil, "pure arithmetic, at the bottom"},
	{"window", []string{"sketch"}, "turns the generations of a sketch, and knows nothing else"},
	{"bucket", []string{"sketch"}, "arithmetic and a table addressed by digests"},
	{"bucket/memstore", []string{"bucket"}, "a store knows buckets, not rules"},
	{"bucket/redisstore", []string{"bucket", "bucket/memstore"}, "a store knows buckets, not rules; memstore is its model"},
	{".", []string{"sketch", "window", "bucket"}, "what importers of the library link"},
	{"policy", []string{"."}, "who, which rules, which keys: no HTTP, no files"},
	{"internal/reference", nil, "what people write first; frozen"},
	{"internal/denial", []string{"."}, "text of an answer, for any server"},
	{"internal/config", []string{".", "policy", "server", "bucket/redisstore", "sync/gossip"}, "fills in the settings of those who have any; serves nothing"},
	{"internal/redismetrics", []string{"bucket/redisstore"}, "so that neither the store knows of Prometheus nor the server of Redis"},
	{"internal/syncmetrics", []string{"sync/..."}, "so that neither the cluster knows of Prometheus nor the server of nodes"},
	{"internal/replay", []string{".", "policy"}, "judges logs; needs no server"},
	{"server", []string{".", "policy", "internal/denial"}, "gets its settings as a Config, not from files"},
	{"middleware/nethttp", []string{".", "internal/denial"}, "a middleware for those who have their own server"},
	{"sync/...", []string{".", "sketch", "sync/..."}, "adapters know the library, not each other"},
}

func TestLayers(t *testing.T) {
	t.Parallel()
	for _, p := range mustPackages(t) {
		for _, l := range layers {
			if !within(p.name(), l.tree) {
				continue
			}
			for _, imp := range p.Imports {
				target := &goPackage{ImportPath: imp}
				if imp != module && !strings.HasPrefix(imp, module+"/") || within(target.name(), "internal/field") || within(target.name(), l.may...) {
					continue
				}
				t.Errorf("%s imports %s: it may import %v of this module: %s", p.name(), target.name(), l.may, l.why)
			}
		}
	}
}

// keep says where a dependency may be imported. Tests may import what they
// need.
var keep = []struct {
	dependency string
	trees      []string
	why        string
}{
	{"github.com/valyala/fasthttp", []string{"server", "bench/..."}, "the library must not link a server"},
	{"github.com/redis/go-redis", []string{"bucket/redisstore", "bench/..."}, "the library must not link a Redis client"},
	{"github.com/hashicorp/memberlist", []string{"sync/..."}, "gossip is one adapter"},
	{"github.com/prometheus", []string{"server", "internal/redismetrics", "internal/syncmetrics", "bench/..."}, "the library counts; the server exports"},
	{"github.com/goccy/go-yaml", []string{"internal/config", "bench/..."}, "files are read at the edge"},
	{"github.com/tidwall/gjson", []string{"internal/replay"}, "logs in JSON are read at the edge"},
	{"github.com/alecthomas/kong", []string{"cmd/fastlimit", "bench/..."}, "flags are read at the edge"},
	{"github.com/schollz/progressbar", []string{"cmd/fastlimit", "bench/..."}, "only a command has a terminal"},
	{module + "/cmd", nil, "nothing builds on a command"},
	{module + "/server", []string{"cmd/fastlimit", "internal/config", "bench/..."}, "arrows point down"},
	{module + "/bucket/redisstore", []string{"cmd/fastlimit", "internal/config", "internal/redismetrics", "bench/..."}, "wiring is for commands"},
	{module + "/sync/gossip", []string{"cmd/fastlimit", "internal/config", "internal/syncmetrics", "bench/..."}, "wiring is for commands"},
	{module + "/internal/testkit/redistest", []string{"internal/testkit/redisfault", "bench/redisbench"}, "for tests, and for what measures faults"},
	{module + "/internal/testkit/faultproxy", []string{"internal/testkit/redisfault"}, "for tests, and for what measures faults"},
	{module + "/internal/testkit/redisfault", []string{"bench/redisbench"}, "for tests, and for what measures faults"},
	{module + "/bucket/storetest", nil, "for tests"},
}

func TestDependenciesStayInPlace(t *testing.T) {
	t.Parallel()
	for _, p := range mustPackages(t) {
		for _, imp := range p.Imports {
			for _, k := range keep {
				if (imp == k.dependency || strings.HasPrefix(imp, k.dependency+"/")) && !within(p.name(), k.trees...) {
					t.Errorf("%s imports %s, which belongs in %v: %s", p.name(), imp, k.trees, k.why)
				}
			}
		}
	}
}

// Whoever imports the library links the limiter and little else.
func TestRootLinksLittle(t *testing.T) {
	t.Parallel()
	banned := []string{
		"net/http", "testing", "log/slog", "os/exec",
		"github.com/valyala/fasthttp", "github.com/redis/go-redis", "github.com/hashicorp/memberlist", "github.com/prometheus",
	}
	for _, p := range mustPackages(t) {
		if p.name() != "." {
			continue
		}
		for _, dep := range p.Deps {
			for _, b := range banned {
				if dep == b || strings.HasPrefix(dep, b+"/") {
					t.Errorf("importing %s links %s", module, dep)
				}
			}
		}
		return
	}
	t.Error("the root package is not listed")
}

func TestEveryPackageHasOneComment(t *testing.T) {
	t.Parallel()
	for _, p := range mustPackages(t) {
		var with []string
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if f.Doc != nil {
				with = append(with, name)
			}
		}
		if len(p.GoFiles) > 0 && len(with) != 1 {
			t.Errorf("package %s has %d package comments %v: want the design on one page, once", p.name(), len(with), with)
		}
	}
}

func TestFilesAreShort(t *testing.T) {
	t.Parallel()
	const most = 400
	for _, p := range mustPackages(t) {
		for _, name := range p.files() {
			b, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(b), "\n"); n > most {
				t.Errorf("%s has %d lines: split it, at most %d", path.Join(p.name(), name), n, most)
			}
		}
	}
}

// A replace directive is ignored in the modules that import this one.
func TestGoModReplacesNothing(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(strings.TrimSpace(line), "replace") {
			t.Errorf("go.mod: %s", line)
		}
	}
}
