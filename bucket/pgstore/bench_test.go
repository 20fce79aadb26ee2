package pgstore

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/jackc/pgx/v5/pgxpool"
)

const benchKeys = 10_000

// BenchmarkChecks is exact checks of 64 callers: by this store, denied or charged, and
// by what people write first, one upsert for each request.
func BenchmarkChecks(b *testing.B) {
	for _, unlogged := range []bool{false, true} {
		var c Config
		server := started(b, &c)
		if err := Init(b.Context(), c, SchemaOptions{Unlogged: unlogged}); err != nil {
			b.Fatal(err)
		}
		kind := map[bool]string{false: "logged", true: "unlogged"}[unlogged]
		s := mustOpen(b, c)
		for name, burst := range map[string]uint64{"charged": 1 << 20, "denied": 1} {
			shape := mustShapeB(b, burst)
			b.Run(kind+"/store/"+name, func(b *testing.B) {
				parallel(b, func(key string) error {
					op := bucket.Op{Kind: bucket.Take, Key: name + key, Shape: shape, Cost: shape.Unit(), Count: 1}
					_, err := do(s, op)
					return err
				})
			})
		}
		server.Do("CREATE " + map[bool]string{true: "UNLOGGED"}[unlogged] + " TABLE naive (key text PRIMARY KEY, n bigint NOT NULL, since timestamptz NOT NULL)")
		pc, err := pgxpool.ParseConfig(c.URL)
		if err != nil {
			b.Fatal(err)
		}
		pc.MaxConns = 16
		pool, err := pgxpool.NewWithConfig(b.Context(), pc)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(kind+"/upsert", func(b *testing.B) {
			parallel(b, func(key string) error {
				var n int64
				return pool.QueryRow(b.Context(), `INSERT INTO naive VALUES ($1, 1, now()) ON CONFLICT (key) DO UPDATE SET
					n = CASE WHEN naive.since < now() - interval '1 second' THEN 1 ELSE naive.n + 1 END,
					since = CASE WHEN naive.since < now() - interval '1 second' THEN now() ELSE naive.since END RETURNING n`, key).Scan(&n)
			})
		})
		pool.Close()
	}
}

func mustShapeB(b *testing.B, burst uint64) bucket.Shape {
	b.Helper()
	s, err := bucket.NewShape(1, time.Hour, burst)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func parallel(b *testing.B, check func(key string) error) {
	b.Helper()
	b.SetParallelism(32) // of 2 processors
	var seed atomic.Uint64
	b.RunParallel(func(pb *testing.PB) {
		rng := rand.New(rand.NewPCG(seed.Add(1), 0))
		for pb.Next() {
			if err := check(strconv.Itoa(rng.IntN(benchKeys))); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "checks/s")
}

// BenchmarkTableSize is the size of the table with a million suspects, after they have
// been pruned, and with a million others after that.
func BenchmarkTableSize(b *testing.B) {
	const suspects = 1_000_000
	for range b.N {
		var c Config
		server := started(b, &c)
		s := mustOpen(b, c)
		size := func(name string) {
			server.Do("VACUUM fastlimit.bucket")
			var total, index float64
			for what, to := range map[string]*float64{"pg_total_relation_size": &total, "pg_indexes_size": &index} {
				if _, err := fmt.Sscan(server.Do("SELECT "+what+"('fastlimit.bucket')"), to); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(total/(1<<20), name+"-MiB")
			b.ReportMetric(index/(1<<20), name+"-index-MiB")
		}
		fill := func(prefix string) {
			shape := mustShapeB(b, 10)
			ops := make([]*bucket.Op, 128)
			for i := 0; i < suspects; i += len(ops) {
				for j := range ops {
					ops[j] = &bucket.Op{Kind: bucket.Take, Key: prefix + strconv.Itoa(i+j), Shape: shape, Cost: shape.Unit(), Count: 1}
				}
				s.driver.Exec(b.Context(), ops, func(_ *bucket.Op, _ bucket.Reply, err error) {
					if err != nil {
						b.Fatal(err)
					}
				})
			}
		}
		fill("per-ip:2001:db8::a")
		size("full")
		server.Do("UPDATE fastlimit.bucket SET expires = 5")
		start := time.Now()
		s.driver.prune(b.Context())
		b.ReportMetric(time.Since(start).Seconds(), "prune-s")
		size("pruned")
		fill("per-ip:2001:db8::b")
		size("again")
	}
}
