package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/jackc/pgx/v5"
)

// minServer is the earliest server_version_num: 14 supports scans of a range of pages.
const minServer = 140000

// check reports whether the server can do the work: it is PostgreSQL 14 or later,
// accepts writes, has a schema of this version, and lets this user use it. The error
// is a [remote.Error] that names the fix.
func (d *driver) check(ctx context.Context) (err error) {
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(ctx, 2*d.config.startTimeout())
	defer cancel()
	err = d.checkServer(ctx)
	if err == nil {
		err = d.checkSchema(ctx)
	}
	if err == nil {
		err = d.Probe(ctx)
	}
	if err != nil {
		return asError(err)
	}
	return nil
}

func (d *driver) checkServer(ctx context.Context) error {
	var version int
	var name string
	var standby, readOnly bool
	err := d.pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery(),
		current_setting('transaction_read_only')::bool`).Scan(&version, &name, &standby, &readOnly)
	switch {
	case err != nil:
		return err
	case version < minServer:
		return errorWithFix(classOther, fmt.Errorf("this is PostgreSQL %s", name), "want 14 or later")
	case standby:
		return newError(classReadOnly, fmt.Errorf("%s is a standby", d.target()))
	case readOnly:
		return newError(classReadOnly, fmt.Errorf("%s is read-only", d.target()))
	}
	return nil
}

// checkSchema compares the version of the schema. If there is none, the class of the
// SQLSTATE already says what to do.
func (d *driver) checkSchema(ctx context.Context) error {
	var version int
	if err := d.pool.QueryRow(ctx, d.sql.version).Scan(&version); err != nil {
		return err
	}
	if version == SchemaVersion {
		return nil
	}
	err := fmt.Errorf("the schema %s has version %d, and this release needs %d", d.config.Schema, version, SchemaVersion)
	if version > SchemaVersion {
		return errorWithFix(classSchema, err, "run the release that made it, or set postgres.schema to another name and run fastlimit store init")
	}
	return newError(classSchema, err)
}

// Probe implements [remote.Driver]. It takes from a separate bucket, which needs the same
// privileges as any take.
func (d *driver) Probe(ctx context.Context) (err error) {
	d.Exec(ctx, []*bucket.Op{remote.ProbeTake("")}, func(_ *bucket.Op, _ bucket.Reply, e error) { err = e })
	return err
}

// Measure implements [remote.Driver], on a separate connection.
func (d *driver) Measure(ctx context.Context, trips []time.Duration) (err error) {
	defer recovered(&err)
	c := d.pool.Config().ConnConfig
	_ = d.logIn(ctx, c)
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for i := range trips {
		start := time.Now()
		if err := conn.Ping(ctx); err != nil {
			return err
		}
		trips[i] = time.Since(start)
	}
	return nil
}
