package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

var (
	scrapedName    = regexp.MustCompile(`(?m)^# TYPE (fastlimit_\w+) `)
	documentedName = regexp.MustCompile(`\bfastlimit_[a-z0-9_]+\b`)
)

// metricsPages are /metrics of a node with Redis and a cluster, and of one with PostgreSQL and one with TLS, a list
// in a file, a state file and a kernel that is fed in shadow.
func metricsPages(t *testing.T) (withRedis, others string) {
	t.Helper()
	r := redistest.Start(t)
	var nodes []*process
	var seeds []string
	for i := range 2 {
		settings := fmt.Sprintf("redis: {url: \"redis://%s\"}\nrules: [{name: per-ip, rate: 100/s}]\n", r.Addr)
		p := serve(t, "-c", writeFile(t, "node.yaml", settings+clusterSettings(fmt.Sprintf("n%d", i), "127.0.0.1:0", seeds)))
		nodes = append(nodes, p)
		seeds = append(seeds, p.clusterAddr(t))
	}
	redistest.Eventually(t, "packets of the other node", func() bool { // of which a family begins late
		_, withRedis = get(t, http.DefaultClient, "http://"+nodes[0].admin+"/metrics")
		return strings.Contains(withRedis, "# TYPE fastlimit_sync_lag_seconds ")
	})
	_, others = get(t, http.DefaultClient, "http://"+postgresNode(t).admin+"/metrics")
	secure := serveFile(t, tlsFile(redistest.NewCertificate(t, time.Now().Add(time.Hour)))+"allow: {file: "+writeFile(t, "allow.txt", "")+"}\nupstream: http://127.0.0.1:1\nkernel: {mode: shadow}\nstate_file: "+filepath.Join(t.TempDir(), "state")+"\n") // some are of certificates, lists, proxies, the kernel and the state file
	_, body := get(t, http.DefaultClient, "http://"+secure.admin+"/metrics")
	return withRedis, others + body
}

// The metrics of all kinds of nodes are those that docs/operations.md has in its tables, and no page names another.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	withRedis, others := metricsPages(t)
	registered, known := submatches(scrapedName, withRedis), []string(nil)
	for _, m := range scrapedName.FindAllStringSubmatch(others, -1) {
		// What every store has is documented once, for Redis.
		if common := strings.Replace(m[1], "_postgres_", "_redis_", 1); !slices.Contains(registered, common) {
			registered = append(registered, m[1])
		} else {
			known = append(known, m[1])
		}
	}
	if len(registered) < 30 {
		t.Fatalf("only %d metrics: %q", len(registered), registered)
	}
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	var tables string
	for _, page := range append(pages, filepath.Join("..", "..", "README.md"), filepath.Join("..", "..", "SECURITY.md")) {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range documentedName.FindAllString(string(b), -1) {
			whole := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
			if !slices.Contains(registered, whole) && !slices.Contains(known, whole) && !strings.HasSuffix(name, "_") && name != "fastlimit_decisions" {
				t.Errorf("%s names %s, which is not registered", page, name)
			}
		}
		if filepath.Base(page) == "operations.md" {
			for line := range strings.Lines(string(b)) {
				if strings.HasPrefix(line, "| ") {
					tables += line
				}
			}
		}
	}
	for _, name := range registered {
		if !regexp.MustCompile("`" + name + "[`{]").MatchString(tables) {
			t.Errorf("docs/operations.md has no row for %s", name)
		}
	}
}
