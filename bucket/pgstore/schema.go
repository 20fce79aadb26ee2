package pgstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// SchemaVersion is the version of the schema that this package works with.
const SchemaVersion = 2

// The schema, in the order in which it is made.
var (
	//go:embed sql/table.sql
	tableSQL string
	//go:embed sql/leaky.sql
	leakySQL string
	//go:embed sql/window.sql
	windowSQL string
	//go:embed sql/log.sql
	logSQL string
	//go:embed sql/operate.sql
	operateSQL string
	//go:embed sql/registry.sql
	registrySQL string
	//go:embed sql/prune.sql
	pruneSQL string
)

// SchemaOptions are the options of [Init] and [SchemaSQL].
type SchemaOptions struct {
	// Unlogged makes a table that PostgreSQL does not write to its log. It is several times
	// cheaper, but empty after a crash and on a standby that takes over.
	Unlogged bool

	// Grant is a role that gets the privileges that a node needs, and no more; "" for
	// none.
	Grant string
}

// SchemaSQL returns the statements that make the schema of a valid configuration, to be run
// in one transaction. They may be run again.
func (c Config) SchemaSQL(o SchemaOptions) string {
	sql := strings.Join([]string{tableSQL, leakySQL, windowSQL, logSQL, operateSQL, registrySQL, pruneSQL}, "\n")
	if o.Unlogged {
		sql = strings.Replace(sql, "CREATE TABLE", "CREATE UNLOGGED TABLE", 1)
	}
	if o.Grant != "" {
		role := pgx.Identifier{o.Grant}.Sanitize()
		sql += "\nGRANT USAGE ON SCHEMA fastlimit TO " + role + ";\nGRANT SELECT, INSERT, UPDATE, DELETE ON fastlimit.bucket, fastlimit.registry, fastlimit.record TO " + role + ";\n"
	}
	if schema := c.WithDefaults().Schema; schema != defaultSchema {
		sql = strings.NewReplacer("fastlimit.", schema+".", "SCHEMA IF NOT EXISTS fastlimit", "SCHEMA IF NOT EXISTS "+schema,
			"ON SCHEMA fastlimit", "ON SCHEMA "+schema).Replace(sql)
	}
	return sql
}

// initTimeout is [Config.Timeout] at least: 10 s to connect.
const initTimeout = 250 * time.Millisecond

// Init makes the schema in PostgreSQL, or upgrades an older one to this version. For a
// newer one it only returns an error. The user of the URL needs the right to create a
// schema, and then owns it. Errors of PostgreSQL and of the connection are a
// [remote.Error]. It is more patient than a store: no request waits for it.
func Init(ctx context.Context, c Config, o SchemaOptions) error {
	if c.Timeout >= 0 { // else it is refused
		c.Timeout = max(c.Timeout, initTimeout)
	}
	d, err := newDriver(c)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	if err := d.checkServer(ctx); err != nil {
		return asError(err)
	}
	if err := pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error { return d.initSchema(ctx, tx, o) }); err != nil {
		return initError(err, o)
	}
	return nil
}

// initError returns an error of [Init], where a missing schema is not the cause.
func initError(err error, o SchemaOptions) error {
	e := asError(err)
	pg, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case e.Class == classNoPerm:
		return errorWithFix(classNoPerm, e.Err, "run it as a user who may create the schema, or once as the database's owner: fastlimit store init --print")
	case ok && pg.Code == "42704" && o.Grant != "":
		return errorWithFix(classAuth, e.Err, "make the role first: CREATE ROLE "+pgx.Identifier{o.Grant}.Sanitize()+" LOGIN PASSWORD '…'")
	}
	return e
}

func (d *driver) initSchema(ctx context.Context, tx pgx.Tx, o SchemaOptions) error {
	// CREATE … IF NOT EXISTS fails where two run at once.
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(1718380910, 1)"); err != nil {
		return err
	}
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return d.notNewer(ctx, tx) })
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, d.config.SchemaSQL(o), pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	var unlogged bool
	err = tx.QueryRow(ctx, "SELECT relpersistence = 'u' FROM pg_class WHERE oid = $1::regclass", d.config.Schema+".bucket").Scan(&unlogged)
	if err == nil && unlogged != o.Unlogged {
		to := "LOGGED"
		if o.Unlogged {
			to = "UNLOGGED"
		}
		_, err = tx.Exec(ctx, "ALTER TABLE "+d.config.Schema+".bucket SET "+to)
	}
	return err
}

// notNewer fails if the schema is of a later release.
func (d *driver) notNewer(ctx context.Context, tx pgx.Tx) error {
	var version int
	var exists bool
	err := tx.QueryRow(ctx, "SELECT to_regprocedure($1) IS NOT NULL", d.config.Schema+".version()").Scan(&exists)
	if err != nil || !exists {
		return err
	}
	err = tx.QueryRow(ctx, d.sql.version).Scan(&version)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg
	}
	if err == nil && version > SchemaVersion {
		err = errorWithFix(classSchema, fmt.Errorf("the schema %s has version %d, and this release makes %d", d.config.Schema, version, SchemaVersion),
			"run the release that made it")
	}
	return err
}
