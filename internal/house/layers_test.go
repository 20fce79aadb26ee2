package house

import (
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// layers says what packages of this module a tree may import: arrows point
// down. Every package is in one, so that a new one has to say where it belongs.
var layers = []struct {
	tree string
	may  []string
	why  string
}{
	{"internal/field", nil, "an error that every package may return"},
	{"internal/marks", nil, "growth of counters"},
	{"internal/heap", nil, "a data structure"},
	{"internal/ascii", nil, "characters"},
	{"internal/safetext", nil, "text for logs and terminals"},
	{"internal/keytext", nil, "a client's key as people read and write it"},
	{"internal/spelling", nil, "names, whatever they name"},
	{"internal/nat64", nil, "who is behind a translator"},
	{"internal/strictjson", nil, "JSON as everybody reads it"},
	{"internal/bytesize", nil, "sizes as people write them"},
	{"internal/span", nil, "times as people write them"},
	{"internal/namedfile", nil, "reads a file, and whether it has changed, whatever is in it"},
	{"internal/chain", nil, "versions that follow one another, whatever they are"},
	{"internal/frames", nil, "pieces of a file with checksums, whatever is in them"},
	{"internal/machine", nil, "which machine this is, and for how long"},
	{"sketch", nil, "pure arithmetic, at the bottom"},
	{"ban", []string{"sketch"}, "who was denied too often: times are arguments, and no kernel"},
	{"window", []string{"sketch"}, "turns the generations of a sketch, and knows nothing else"},
	{"bucket", []string{"sketch"}, "arithmetic and a table addressed by digests"},
	{"bucket/step", []string{"bucket"}, "what every store computes: arithmetic"},
	{"bucket/memstore", []string{"bucket", "bucket/step"}, "a store knows buckets, not rules"},
	{"bucket/remote", []string{"bucket", "internal/safetext"}, "what stores across a network have in common: no I/O, and no store"},
	{"bucket/registry", nil, "small sets of texts that nodes share, whatever they say"},
	{"bucket/registry/registrytest", []string{"bucket/registry"}, "asks of every registry the same"},
	{"bucket/redisstore", []string{"bucket", "bucket/step", "bucket/remote", "bucket/registry"}, "a store knows buckets, not rules; its driver is what is of Redis alone"},
	{"bucket/pgstore", []string{"bucket", "bucket/step", "bucket/remote", "bucket/registry"}, "likewise: what is of PostgreSQL alone"},
	{"bucket/storetest", []string{"bucket"}, "asks of every store the same"},
	{"bucket/storetest/trial", []string{"bucket", "bucket/step", "bucket/remote", "bucket/registry", "bucket/storetest", "internal/testkit/..."}, "likewise, under load and faults: it runs what each store's test has broken"},
	{"internal/clock", []string{"bucket"}, "times and what clocks say: of buckets it knows by how much clocks drift apart"},
	{"limit", []string{"sketch", "bucket", "ban"}, "what a rule says, and sums of bytes: takes no memory and no time, and decides nothing"},
	{"internal/exact", []string{"sketch", "bucket", "limit", "internal/clock"}, "one client's bucket, here or in a store: knows no rules, and neither filter, sketch nor bans"},
	{"internal/queue", []string{"sketch", "limit"}, "waiting requests, in order: knows neither rules nor buckets, and no time but a deadline"},
	{"internal/state", []string{"limit", "bucket", "ban", "sketch", "window"}, "writes and reads what a limiter knows, part by part; it knows no limiter"},
	{"internal/engine", []string{"sketch", "window", "bucket", "ban", "limit", "internal/clock", "internal/exact", "internal/queue", "internal/state", "internal/selfaudit"}, "decides and keeps state; the names that embedders use are the root's"},
	{".", []string{"sketch", "bucket", "limit", "internal/engine"}, "the API: it documents and forwards"},
	{"ban/feed", nil, "what a kernel is to hold: a queue, whichever kernel it is"},
	{"ban/nft", []string{"ban/feed"}, "what is of nftables alone"},
	{"policy", []string{".", "internal/engine"}, "who, which rules, which keys: no HTTP, no files"},
	{"legacy", []string{"."}, "limits as others define them: arithmetic, whatever file they stand in"},
	{"internal/denial", []string{"."}, "text of an answer, for any server"},
	{"internal/lists", []string{"policy"}, "files of addresses, whoever decides by them"},
	{"internal/config", []string{".", "bucket", "policy", "ban", "ban/feed", "ban/nft", "legacy", "server", "internal/lists", "bucket/redisstore", "bucket/pgstore", "sync/gossip"}, "fills in the settings of those who have any; serves nothing"},
	{"internal/migrate", []string{".", "policy", "internal/migrate/nginxconf"}, "makes rules; which file they go to is for commands"},
	{"internal/migrate/nginxconf", nil, "a syntax, whatever is in it"},
	{"internal/prom", nil, "tables of metrics, whoever counts"},
	{"internal/rls/descriptor", nil, "limits as Envoy's rate limit service has them: trees, whoever counts"},
	{"internal/rls/count", []string{"bucket", "sketch", "sync/delta", "internal/rls/descriptor"}, "hits in windows: it knows no limits"},
	{"internal/rls/stats", nil, "counts of decisions, whoever decides"},
	{"internal/rls/service", []string{"internal/rls/descriptor", "internal/rls/count", "internal/rls/stats"}, "decides: no protocol, and no clock"},
	{"internal/rls/api", []string{"internal/rls/descriptor", "internal/rls/service"}, "messages: nothing is sent or decided"},
	{"internal/rls/xds", []string{"internal/certs", "internal/rls/api", "internal/rls/descriptor"}, "limits of a control plane: it puts nothing in force"},
	{"internal/rls/env", []string{"bucket/redisstore", "sync/gossip", "internal/rls/count", "internal/rls/service", "internal/rls/xds"}, "variables: it opens nothing"},
	{"internal/rls/front", []string{"internal/certs", "internal/rls/service", "internal/rls/api", "internal/rls/env", "internal/rls/stats"}, "ports: it decides nothing"},
	{"internal/rls/files", []string{"internal/rls/descriptor"}, "a folder of them"},
	{"internal/unixsocket", nil, "listens on paths, whoever serves"},
	{"internal/systemd", nil, "what a service manager gives and is told, whoever serves"},
	{"internal/mistake", nil, "mistakes in files, whatever is in them"},
	{"internal/statefile", nil, "a file that is whole at any moment, whatever is in it"},
	{"internal/operator", nil, "how operators call, whatever they change"},
	{"internal/bans", []string{".", "internal/engine", "policy", "internal/operator"}, "what operators see of bans and ban themselves, whoever answers requests"},
	{"internal/audit", nil, "reads lines of a log"},
	{"internal/selfaudit", []string{"bucket", "sketch"}, "counts a sample by itself: of buckets it knows the arithmetic"},
	{"internal/explain", []string{".", "policy", "toptalkers", "internal/operator"}, "asks a policy, whoever wants to know"},
	{"internal/overrides", []string{".", "internal/engine", "policy", "bucket/registry", "internal/operator"}, "what operators set, whichever store keeps it and whoever answers requests"},
	{"internal/liverules", []string{".", "policy", "internal/operator"}, "what operators change of rules for a while, whoever answers requests"},
	{"internal/metrics", []string{"internal/prom", "internal/bans", "internal/overrides", "internal/audit", "internal/explain", "internal/lists", "internal/statefile", "bucket/redisstore", "bucket/pgstore", "bucket/remote", "sync/..."}, "so that neither store nor cluster knows of Prometheus, nor the server of either"},
	{"internal/replay", []string{".", "internal/engine", "policy", "bucket"}, "judges logs, and asks buckets for nothing but the names of algorithms; needs no server"},
	{"internal/suggest", []string{".", "internal/engine", "policy", "bucket", "internal/breakdown", "internal/replay"}, "reads logs as replay does, and counts by the arithmetic of buckets"},
	{"toptalkers", []string{"sketch"}, "ranks what tables count: no network, no server"},
	{"internal/screen", nil, "a terminal, whatever is drawn on it"},
	{"internal/top", []string{"internal/screen"}, "a screen and its keys: of terminals it knows what keys are called"},
	{"internal/breakdown", []string{"sketch", "toptalkers"}, "counts requests by what they have in common, whoever has them: it draws samples as a sketch does, and of top talkers it knows how far one may be off"},
	{"server", []string{".", "internal/engine", "ban/feed", "policy", "internal/certs", "internal/breakdown", "internal/denial", "internal/explain", "toptalkers", "server/internal/..."}, "gets its settings as a Config, not from files; wires its rooms"},
	{"server/internal/text", nil, "text of clients, for every room"},
	{"server/internal/http1", []string{"server/internal/text"}, "messages as bytes, whoever sends them; no connections"},
	{"server/internal/guard", []string{"server/internal/text"}, "who may call, for every front"},
	{"server/internal/logs", []string{".", "server/internal/text"}, "lines of a log; knows neither requests nor connections"},
	{"server/internal/accesslog", nil, "lines of requests, whoever answers them"},
	{"internal/certs", nil, "a pair of files, whoever shows it"},
	{"server/internal/proxyheader", nil, "bytes of a header, whoever sends them"},
	{"server/internal/nowait", nil, "system calls, whatever is sent"},
	{"server/internal/latency", nil, "how long things take, whatever they are"},
	{"server/internal/upstream", []string{"server/internal/latency", "server/internal/nowait"}, "connections to servers, whatever is spoken on them"},
	{"server/internal/conn", []string{"internal/denial", "server/internal/http1", "server/internal/latency", "server/internal/nowait", "server/internal/proxyheader", "server/internal/logs", "server/internal/text"}, "bytes and sockets; knows no rules"},
	{"server/internal/decide", []string{".", "internal/engine", "policy", "internal/breakdown", "internal/denial", "server/internal/accesslog", "server/internal/conn", "server/internal/guard", "server/internal/http1", "server/internal/latency", "server/internal/logs", "server/internal/text"}, "one request in, one answer out; knows no operators"},
	{"server/internal/proxy", []string{"internal/denial", "server/internal/conn", "server/internal/decide", "server/internal/http1", "server/internal/latency", "server/internal/logs", "server/internal/text", "server/internal/upstream"}, "passes requests on; knows no rules"},
	{"server/internal/expel", []string{"ban/feed", "server/internal/decide"}, "whom a kernel may drop; knows neither rules nor kernels"},
	{"server/internal/h2", []string{"server/internal/conn", "server/internal/http1"}, "frames in, bytes of HTTP/1 out; knows no rules"},
	{"server/internal/admin", []string{".", "internal/breakdown", "internal/denial", "server/internal/guard", "server/internal/text"}, "shows what it is given"},
	{"server/internal/metrics", []string{".", "ban/feed", "internal/prom", "server/internal/latency", "server/internal/upstream"}, "shows what it is given"},
	{"server/internal/lifecycle", []string{"."}, "starts and stops fronts; knows none of them"},
	{"middleware/internal/limits", []string{".", "internal/engine", "policy", "internal/denial"}, "what all middlewares decide alike, whatever their server"},
	{"middleware/nethttp", []string{".", "policy", "internal/denial", "middleware/internal/limits"}, "a middleware for those who have their own server"},
	{"middleware/fasthttp", []string{".", "policy", "internal/denial", "middleware/internal/limits"}, "likewise"},
	{"sync/...", []string{".", "internal/engine", "sketch", "toptalkers", "sync/..."}, "adapters know the library, not each other"},
	{"internal/house/...", nil, "asks git and the go command, and runs what they name"},
	{"internal/cli", nil, "flags, signals and progress of any program"},
	{"internal/testkit/...", []string{".", "internal/engine", "policy", "bucket", "legacy", "internal/rls/api", "internal/testkit/..."}, "for tests of any package, so it may know none of them"},
	{"bench/defaults", nil, "what a field that is not set means"},
	{"bench/reference", nil, "what people write first; frozen"},
	{"bench/proc", nil, "processes, whatever they are"},
	{"bench/load", nil, "an HTTP client, whatever it asks"},
	{"bench/report", nil, "results, whoever has measured them"},
	{"bench/oracle", []string{".", "internal/testkit/judge"}, "judges by itself: of the library it knows the notation of a rate"},
	{"bench/workload", []string{"bench/oracle"}, "traffic made to test a rule"},
	{"bench/inproc", []string{".", "bucket", "bench/defaults", "bench/oracle", "bench/proc", "bench/reference", "bench/report", "bench/workload"}, "calls limiters, and asks buckets for the number of algorithms"},
	{"bench/httpbench", []string{".", "bench/defaults", "bench/load", "bench/oracle", "bench/proc", "bench/report"}, "asks servers"},
	{"bench/clusterbench", []string{".", "internal/engine", "sketch", "sync/delta", "bench/defaults", "bench/report", "bench/workload"}, "simulates nodes, without a network"},
	{"bench/policybench", []string{".", "policy", "bench/defaults", "bench/proc", "bench/report"}, "decides, without a server"},
	{"bench/stand", []string{}, "stands in for a test"},
	{"bench/storebench", []string{".", "bucket", "bench/..."}, "asks a store, and knows none"},
	{"bench/postgresbench", []string{"bucket", "bucket/pgstore", "internal/testkit/pgtest", "bench/..."}, "asks PostgreSQL"},
	{"bench/redisbench", []string{".", "bucket", "bucket/redisstore", "internal/testkit/redisfault", "bench/..."}, "asks Redis, and breaks it"},
	{"bench/banbench", []string{"internal/testkit/netns", "bench/..."}, "floods servers, in a network of its own"},
	{"bench/command", []string{".", "internal/cli", "bench/..."}, "flags of the benchmarks"},
	{"bench", []string{"bench/command"}, "a main package, which nobody can import"},
	{"cmd/fastlimit", []string{".", "ban/feed", "ban/nft", "policy", "toptalkers", "server", "bucket", "bucket/remote", "bucket/redisstore", "bucket/pgstore", "bucket/registry", "sync/gossip", "internal/cli", "internal/config", "internal/metrics", "internal/bans", "internal/overrides", "internal/liverules", "internal/audit", "internal/explain", "internal/lists", "internal/statefile", "internal/migrate/...", "internal/replay", "internal/screen", "internal/suggest", "internal/top", "internal/rls/..."}, "flags, files, signals and wiring"},
}

// basics know nothing of this module, and everybody may import them.
var basics = []string{"internal/unixsocket", "internal/systemd", "internal/field", "internal/mistake", "internal/marks", "internal/heap", "internal/ascii", "internal/safetext", "internal/keytext", "internal/spelling", "internal/nat64", "internal/strictjson", "internal/bytesize", "internal/span", "internal/namedfile", "internal/chain", "internal/frames", "internal/machine"}

func TestLayers(t *testing.T) {
	t.Parallel()
	for _, p := range mustPackages(t) {
		listed := len(p.GoFiles) == 0 // it has only tests
		for _, l := range layers {
			if !within(p.name(), l.tree) {
				continue
			}
			listed = true
			for _, imp := range p.Imports {
				target := &goPackage{ImportPath: imp}
				if target.name() == "limit" && slices.Contains(l.may, ".") {
					continue // the root's own words
				}
				if imp != module && !strings.HasPrefix(imp, module+"/") || within(target.name(), basics...) || within(target.name(), l.may...) {
					continue
				}
				t.Errorf("%s imports %s: it may import %v of this module: %s", p.name(), target.name(), l.may, l.why)
			}
		}
		if !listed {
			t.Errorf("%s is in no tree of layers: add what it may import of this module, and why", p.name())
		}
	}
}

// order is the order of the layers, from the bottom up. A package may import what is below it and, in
// a tree that ends in "/...", its own tree. Test kits are not listed: nothing imports them but tests.
var order = [][]string{
	{
		"internal/field", "internal/unixsocket", "internal/systemd", "internal/mistake", "internal/ascii", "internal/heap", "internal/chain", "internal/frames", "internal/machine", "internal/statefile", "internal/audit", "internal/marks", "internal/safetext", "internal/keytext", "internal/spelling", "internal/nat64", "internal/bytesize", "internal/span", "internal/prom", "internal/screen", "internal/house/check", "internal/house/mutants",
		"bench/defaults", "bench/reference", "bench/proc", "bench/load", "bench/report",
	},
	{"sketch", "internal/namedfile", "internal/rls/descriptor", "internal/rls/stats", "internal/cli", "internal/top", "server/internal/latency", "server/internal/nowait", "server/internal/text", "internal/strictjson", "internal/operator", "bucket/registry"},
	{"window", "bucket", "ban", "ban/feed", "internal/rls/files"},
	{"limit", "internal/clock"},
	{"internal/exact", "internal/queue", "internal/state", "internal/selfaudit"},
	{"internal/engine"},
	{".", "ban/nft", "bucket/step", "bucket/remote", "bucket/storetest", "bucket/registry/registrytest", "toptalkers"},
	{"policy", "legacy", "internal/denial", "bucket/memstore", "bucket/redisstore", "bucket/pgstore", "bucket/storetest/trial", "sync/delta", "internal/breakdown"},
	{"sync/gossip", "internal/rls/count", "middleware/...", "internal/replay", "internal/migrate/...", "internal/bans", "internal/explain", "internal/overrides", "internal/liverules", "internal/lists", "server/internal/guard", "server/internal/logs", "internal/certs", "server/internal/accesslog", "server/internal/http1", "server/internal/proxyheader", "server/internal/upstream"},
	{"server/internal/conn", "internal/rls/service", "internal/metrics", "internal/suggest"},
	{"server/internal/admin", "internal/rls/api", "server/internal/decide", "server/internal/h2", "server/internal/lifecycle", "server/internal/metrics"},
	{"server/internal/proxy", "server/internal/expel", "internal/rls/xds"},
	{"server", "internal/rls/env"},
	{"internal/config", "internal/rls/front"},
	{"cmd/fastlimit", "bench/..."},
}

// upward is how many imports do not point down. It may only fall.
const upward = 0

// TestImportsPointDown counts the imports that point up the layers or sideways.
func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	find := func(name string) (layer int, tree string) {
		for i, trees := range order {
			for _, tree := range trees {
				if within(name, tree) {
					return i, tree
				}
			}
		}
		return -1, ""
	}
	var up []string
	for _, p := range mustPackages(t) {
		from, tree := find(p.name())
		if from < 0 {
			if len(p.GoFiles) > 0 && !within(p.name(), "internal/testkit/...", "docs/...") {
				t.Errorf("%s is in no layer: add it to the order", p.name())
			}
			continue
		}
		for _, imp := range p.Imports {
			if imp != module && !strings.HasPrefix(imp, module+"/") {
				continue
			}
			target := (&goPackage{ImportPath: imp}).name()
			if to, other := find(target); to >= from && other != tree {
				up = append(up, p.name()+" imports "+target)
			}
		}
	}
	t.Logf("%d imports point up or sideways", len(up))
	if len(up) > upward {
		t.Errorf("at most %d may:\n%s", upward, strings.Join(up, "\n"))
	}
}

// keep says where a dependency may be imported. Tests may import what they
// need.
var keep = []struct {
	dependency string
	trees      []string
	why        string
}{
	{"github.com/valyala/fasthttp", []string{"server", "middleware/fasthttp", "server/internal/conn", "server/internal/decide", "bench/..."}, "the library must not link a server"},
	{"github.com/redis/go-redis", []string{"bucket/redisstore", "bench/..."}, "the library must not link a Redis client"},
	{"github.com/jackc", []string{"bucket/pgstore", "internal/testkit/pgtest", "bench/..."}, "the library must not link a PostgreSQL client"},
	{"github.com/google/nftables", []string{"ban/nft"}, "the library must not link a kernel's client"},
	{"github.com/mdlayher/netlink", []string{"ban/nft"}, "likewise"},
	{"github.com/pires/go-proxyproto", []string{"server/internal/proxyheader"}, "the library must not link a server"},
	{"github.com/sony/gobreaker", []string{"bucket/remote"}, "one breaker for all stores"},
	{"github.com/hashicorp/memberlist", []string{"sync/..."}, "gossip is one adapter"},
	{"github.com/prometheus", []string{"server", "server/internal/metrics", "internal/prom", "internal/metrics", "internal/rls/stats", "bench/..."}, "the library counts; the server exports"},
	{"github.com/goccy/go-yaml", []string{"internal/config", "bench/..."}, "files are read at the edge"},
	{"github.com/tidwall/gjson", []string{"internal/replay"}, "logs in JSON are read at the edge"},
	{"github.com/alecthomas/kong", []string{"cmd/fastlimit", "internal/cli", "bench/defaults"}, "flags are read at the edge"},
	{"github.com/schollz/progressbar", []string{"internal/cli"}, "only a command has a terminal"},
	{module + "/internal/cli", []string{"cmd/fastlimit", "bench/command"}, "only a command has a terminal"},
	{module + "/bench", []string{"bench/..."}, "the product is measured from outside"},
	{module + "/cmd", nil, "nothing builds on a command"},
	{module + "/server", []string{"server/...", "cmd/fastlimit", "internal/config", "bench/..."}, "arrows point down"},
	{module + "/bucket/redisstore", []string{"cmd/fastlimit", "internal/config", "internal/metrics", "bench/...", "internal/rls/env"}, "wiring is for commands"},
	{module + "/bucket/pgstore", []string{"cmd/fastlimit", "internal/config", "internal/metrics", "bench/..."}, "wiring is for commands"},
	{module + "/ban/nft", []string{"cmd/fastlimit", "internal/config"}, "wiring is for commands"},
	{module + "/sync/gossip", []string{"cmd/fastlimit", "internal/config", "internal/metrics", "bench/...", "internal/rls/env"}, "wiring is for commands"},
	{module + "/internal/testkit", []string{"internal/testkit/...", "bucket/storetest/trial", "bench/oracle", "bench/redisbench", "bench/postgresbench", "bench/banbench"}, "for tests, and for what measures faults and floods"},
	{module + "/bucket/storetest", []string{"bucket/storetest/trial"}, "for tests"},
	{module + "/internal/testkit/middlewaretest", nil, "for tests"},
	{module + "/internal/testkit/vectors", nil, "for tests"},
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
		"github.com/valyala/fasthttp", "github.com/redis/go-redis", "github.com/jackc", "github.com/google/nftables", "github.com/hashicorp/memberlist", "github.com/prometheus",
	}
	for _, p := range mustPackages(t) {
		if p.name() != "." {
			continue
		}
		if len(p.GoFiles) > 12 {
			t.Errorf("the root has %d files: it documents and forwards, the rest is internal/engine", len(p.GoFiles))
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

// The product's binary holds nothing that measures it or breaks it on purpose,
// also through a package that may be imported.
func TestProductLinksNoMeasuring(t *testing.T) {
	t.Parallel()
	banned := []string{
		module + "/bench", module + "/internal/testkit", module + "/bucket/storetest",
		"testing", "github.com/HdrHistogram/hdrhistogram-go", "pgregory.net/rapid",
	}
	all := mustPackages(t)
	at := slices.IndexFunc(all, func(p *goPackage) bool { return p.name() == "cmd/fastlimit" })
	if at < 0 {
		t.Fatal("cmd/fastlimit is not listed")
	}
	for _, dep := range all[at].Deps {
		for _, b := range banned {
			if dep == b || strings.HasPrefix(dep, b+"/") {
				t.Errorf("fastlimit links %s", dep)
			}
		}
	}
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
			if strings.HasSuffix(name, ".pb.go") {
				continue // generated
			}
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
