package pgstore

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/internal/testkit/faultproxy"
	"github.com/fastlimit/fastlimit/internal/testkit/pgtest"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// refused is the class and text of what Open returns instead of a store.
func refused(t *testing.T, c Config) (*remote.Class, string) {
	t.Helper()
	s, err := Open(t.Context(), c)
	if err == nil || s != nil {
		closeLater(t, s)
		t.Fatalf("opened: %v", err)
	}
	return classify(err), err.Error()
}

// A schema that is missing or of another version is an error at the start that names
// the command; a later version is not overwritten.
func TestSchemaVersions(t *testing.T) {
	t.Parallel()
	var c Config
	server := started(t, &c)
	none := c
	none.Schema = "none"
	if class, text := refused(t, none); class != classSchema || !strings.Contains(text, "fastlimit store init") {
		t.Errorf("no schema: %s", text)
	}
	for version, want := range map[int]string{0: "run fastlimit store init with this release", 3: "run the release that made it"} {
		server.Do("CREATE OR REPLACE FUNCTION fastlimit.version() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT " + strconv.Itoa(version) + "'")
		class, text := refused(t, c)
		if class != classSchema || !strings.Contains(text, "has version "+strconv.Itoa(version)+", and this release needs 2") || !strings.Contains(text, want) {
			t.Errorf("version %d: %s", version, text)
		}
		err := Init(t.Context(), c, SchemaOptions{})
		if newer := version > SchemaVersion; newer != (classify(err) == classSchema) {
			t.Errorf("Init over version %d: %v", version, err)
		}
	}
}

// Init may be run again, by several at once, and changes whether the table is logged.
func TestInitAgain(t *testing.T) {
	t.Parallel()
	var c Config
	server := started(t, &c)
	s := mustOpen(t, c)
	shape := mustShape(t, 1, time.Hour, 5)
	take := bucket.Op{Kind: bucket.Take, Key: "a", Shape: shape, Cost: shape.Unit(), Count: 3}
	if _, err := do(s, take); err != nil {
		t.Fatal(err)
	}
	for _, unlogged := range []bool{true, false} {
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := Init(t.Context(), c, SchemaOptions{Unlogged: unlogged}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		want := map[bool]string{true: "u", false: "p"}[unlogged]
		if got := server.Do("SELECT relpersistence FROM pg_class WHERE oid = 'fastlimit.bucket'::regclass"); got != want {
			t.Errorf("unlogged %v: relpersistence %s", unlogged, got)
		}
	}
	// The store goes on, with what was charged.
	if r, err := do(s, take); err != nil || r.Granted != 2 {
		t.Errorf("%+v, %v: want 2 of 5 left", r, err)
	}
}

// Who may not create a schema is told what to do; nobody but the owner need.
func TestInitNeedsPrivileges(t *testing.T) {
	t.Parallel()
	var c Config
	server := started(t, &c)
	server.Do("CREATE ROLE node LOGIN")
	node := c
	node.URL = server.URL("node", "postgres")
	if class, text := refused(t, node); class != classNoPerm || !strings.Contains(text, "fastlimit store init --grant") {
		t.Errorf("without privileges: %s", text)
	}
	node.Schema = "other"
	if err := Init(t.Context(), node, SchemaOptions{}); classify(err) != classNoPerm || !strings.Contains(err.Error(), "--print") {
		t.Errorf("Init without privileges: %v", err)
	}
	if err := Init(t.Context(), c, SchemaOptions{Grant: "node"}); err != nil {
		t.Fatal(err)
	}
	node.Schema = ""
	mustOpen(t, node)
}

// A server that is read-only, or a database that is not there, is an error at the start;
// one that is merely away is not.
func TestOpenErrors(t *testing.T) {
	t.Parallel()
	var c Config
	server := started(t, &c)
	wrong := c
	wrong.URL = server.URL("postgres", "nowhere")
	if class, _ := refused(t, wrong); class != classAuth {
		t.Errorf("no such database: %v", class)
	}
	server.Do("ALTER ROLE postgres SET default_transaction_read_only = on")
	if class, text := refused(t, c); class != classReadOnly || !strings.Contains(text, "name the primary") {
		t.Errorf("read-only: %v %s", class, text)
	}
	server.Kill()
	s, err := Open(t.Context(), c)
	if s == nil || !errors.Is(err, bucket.ErrAway) {
		t.Fatalf("away: %v, %v", s, err)
	}
	closeLater(t, s)
}

// Pruning deletes what has expired, in steps, and waits for nobody.
func TestPrune(t *testing.T) {
	t.Parallel()
	const expired, live = 30_000, 500
	var c Config
	server := started(t, &c)
	server.Do("INSERT INTO fastlimit.bucket SELECT convert_to(i::text, 'UTF8'), 0, 1, 0, 1, 1, 0, NULL, CASE WHEN i < " + strconv.Itoa(live) +
		" THEN 9e15 ELSE 5 END FROM generate_series(0, " + strconv.Itoa(expired+live-1) + ") i")
	held := server.Session()
	exec := func(sql string) {
		t.Helper()
		if _, err := held.Exec(context.Background(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("BEGIN")
	exec("SELECT FROM fastlimit.bucket WHERE key = '1000' FOR UPDATE")
	s := mustOpen(t, c)
	count := func() string { return server.Do("SELECT count(*) FROM fastlimit.bucket WHERE key <> '!probe'") }
	s.driver.prune(t.Context())
	if got := count(); got != strconv.Itoa(live+1) || s.Stats().Pruned < expired-1 {
		t.Errorf("%s rows left, %d pruned: want %d and one that is locked", got, s.Stats().Pruned, live)
	}
	// Another node that prunes at the same time leaves it to the first.
	exec("SELECT pg_advisory_xact_lock(1718380910, 0)")
	if next, err := s.driver.pruneStep(t.Context(), 0); next != nil || err != nil {
		t.Errorf("beside another: %v, %v", next, err)
	}
	exec("ROLLBACK")
	s.driver.prune(t.Context())
	if got := count(); got != strconv.Itoa(live) {
		t.Errorf("%s rows left, want %d", got, live)
	}
	// And by itself.
	server.Do("UPDATE fastlimit.bucket SET expires = 5 WHERE key = '7'")
	c.Prune = 10 * time.Millisecond
	mustOpen(t, c)
	redistest.Eventually(t, "the row to be pruned", func() bool { return count() == strconv.Itoa(live-1) })
}

func TestURLErrorsHideThePassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://u:s3cret@h", "postgres://u:s3#cret@h/d", "postgres://u:s3 cret@h/d", "mysql://u:s3cret@h/d", "postgres://u:s3cret@h:x/d",
		"postgres://u:s3cret@h/d?sslmode=s3cret", "postgres://u:s3cret@h/d?sslrootcert=/does/not/exist", "u:s3cret", "postgres://u:s3cret@:5/d?x=%",
		"host=h password=s3cret",
	} {
		if err := (Config{URL: url}).Validate(); err == nil || strings.Contains(err.Error(), "cret") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{"postgres://u:p@h/d", "postgresql://h:1,i:2/d?sslmode=disable", "postgres:///d?host=/run/postgresql", "postgres://u@[::1]:5/d"} {
		if err := (Config{URL: url}).Validate(); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// The schema is made where the server is too slow for a store: no request waits for it. Each answer takes
// longer than a store would wait for all that a connection needs.
func TestInitIsPatient(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	proxy := faultproxy.New(t, server.Addr, 7)
	var c Config
	c.URL = strings.Replace(server.URL("postgres", "postgres"), server.Addr, proxy.Addr(), 1)
	proxy.Set(t, faultproxy.Fault{Delay: minDial + 100*time.Millisecond})
	if err := Init(t.Context(), c, SchemaOptions{}); err != nil {
		t.Fatal(err)
	}
	proxy.Set(t, faultproxy.Fault{})
	mustOpen(t, patient(c.URL))
}
