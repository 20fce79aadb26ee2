//go:build linux

package postgresbench

import (
	"context"
	"errors"
	"fmt"

	"github.com/fastlimit/fastlimit/bench/storebench"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// gcra is the usual statement: one bucket, one request, the server's clock. A denial
// returns no row and writes none, though it locks the row. The clock is that of the
// statement, as now() is.
const gcra = `
INSERT INTO plain AS b VALUES ($1, now() + $2::bigint * interval '1 microsecond')
ON CONFLICT (key) DO UPDATE SET tat = greatest(b.tat, now()) + $2::bigint * interval '1 microsecond'
WHERE greatest(b.tat, now()) + $2::bigint * interval '1 microsecond' - now() <= $2::bigint * $3::bigint * interval '1 microsecond'
RETURNING true`

// upsertConns is how many connections the usual way has: more of them take longer.
const upsertConns = 16

// viaUpsert is the usual way: pgx with a pool of connections and one upsert for each
// check. synchronousCommit says whether it waits for the disk, as it does by default.
func (t *target) viaUpsert(synchronousCommit string) storebench.Way {
	return func(ctx context.Context, l storebench.Load) (*storebench.Contender, error) {
		pc, err := pgxpool.ParseConfig(t.config.URL)
		if err != nil {
			return nil, err
		}
		pc.MaxConns, pc.MinConns = upsertConns, upsertConns
		pc.ConnConfig.RuntimeParams["synchronous_commit"] = synchronousCommit
		pool, err := pgxpool.NewWithConfig(ctx, pc)
		if err != nil {
			return nil, err
		}
		c := &storebench.Contender{
			Name:  map[string]string{"on": "upsert per request", "off": "upsert per request, no wait for the disk"}[synchronousCommit],
			Setup: fmt.Sprintf("pgx, %d connections, a GCRA upsert, synchronous_commit %s", upsertConns, synchronousCommit),
			Close: func() error { pool.Close(); return nil },
			Check: func(ctx context.Context, key int) (admitted bool, err error) {
				err = pool.QueryRow(ctx, gcra, synchronousCommit+l.Workload+storebench.Key(key), l.Per.Microseconds(), l.Burst).Scan(&admitted)
				if errors.Is(err, pgx.ErrNoRows) {
					return false, nil
				}
				return admitted, err
			},
		}
		if _, err := pool.Exec(ctx, "CREATE TABLE IF NOT EXISTS plain (key text PRIMARY KEY, tat timestamptz NOT NULL) WITH (fillfactor = 70)"); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return c, nil
	}
}
