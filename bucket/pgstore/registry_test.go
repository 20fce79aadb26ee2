package pgstore

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket/registry"
	"github.com/fastlimit/fastlimit/bucket/registry/registrytest"
)

// The user has what --grant gives, and no more; the schema was brought here from version 1,
// whose charges stay.
func TestRegistry(t *testing.T) {
	t.Parallel()
	var c Config
	server := started(t, &c)
	server.Do("CREATE ROLE node LOGIN; DROP TABLE fastlimit.registry, fastlimit.record CASCADE")
	server.Do("CREATE OR REPLACE FUNCTION fastlimit.version() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1'")
	server.Do("INSERT INTO fastlimit.bucket VALUES ('a', 0, 1, 0, 1, 1, 0, NULL, 9e15)")
	if class, _ := refused(t, c); class != classSchema {
		t.Errorf("version 1: %v", class)
	}
	if err := Init(t.Context(), c, SchemaOptions{Grant: "node"}); err != nil {
		t.Fatal(err)
	}
	if n := server.Do("SELECT count(*) FROM fastlimit.bucket"); n != "1" {
		t.Errorf("%s buckets after the upgrade", n)
	}
	c.URL = server.URL("node", "postgres")
	registrytest.Run(t, func() registry.Store {
		r, err := mustOpen(t, c).Registry("overrides")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		return r
	}, func() { server.Do("TRUNCATE fastlimit.registry, fastlimit.record") })
}

// Versions are above all before and not below the clock: a standby that has lost the last
// changes goes on above what it has lost, as does a server whose clock was set back.
func TestRegistryVersions(t *testing.T) {
	t.Parallel()
	var c Config
	server := started(t, &c)
	r, err := mustOpen(t, c).Registry("overrides")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	now := time.Now().UnixMicro()
	for _, was := range []int64{0, 5, now + time.Hour.Microseconds(), math.MaxInt64, -5} { // the last two cannot be
		server.Do(fmt.Sprintf("UPDATE fastlimit.registry SET version = %d", was))
		if err := r.Put(t.Context(), "ours", "v", time.Hour); err != nil {
			t.Fatal(err)
		}
		if m, err := r.Mark(t.Context()); err != nil || was != math.MaxInt64 && signed(m.Version) <= was || signed(m.Version) < now || was > now && was != math.MaxInt64 && signed(m.Version) != was+1 {
			t.Errorf("after version %d: %+v, %v", was, m, err)
		}
	}
}
