package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fastlimit/fastlimit/bucket/registry"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Registry is a [registry.Store] in the schema of a [Store], on a separate connection. It
// is safe for concurrent use. Its errors are those of [Store].
type Registry struct {
	pool   *pgxpool.Pool
	name   string
	schema string
}

// Registry returns the registry of that name. Close it after use.
func (s *Store) Registry(name string) (*Registry, error) {
	pc := s.driver.pool.Config()
	pc.MaxConns, pc.MinConns, pc.AfterConnect = 1, 0, nil
	pool, err := pgxpool.NewWithConfig(context.Background(), pc) // connects when it is used
	if err != nil {
		return nil, fmt.Errorf("fastlimit/pgstore: %w", err)
	}
	return &Registry{pool, name, s.driver.config.Schema}, nil
}

// Close closes its connection.
func (r *Registry) Close() error { r.pool.Close(); return nil }

// call returns the result of a function of the schema.
func (r *Registry) call(ctx context.Context, to any, function string, args ...any) (err error) {
	defer recovered(&err)
	args = append([]any{r.name}, args...)
	err = r.pool.QueryRow(ctx, "SELECT "+r.schema+"."+function+"("+placeholders(len(args))+")", args...).Scan(to)
	if err != nil {
		return asError(err)
	}
	return nil
}

// Mark implements [registry.Store].
func (r *Registry) Mark(ctx context.Context) (m registry.Mark, err error) {
	defer recovered(&err)
	var epoch, version int64
	err = r.pool.QueryRow(ctx, "SELECT epoch, version FROM "+r.schema+".registry WHERE name = $1", r.name).Scan(&epoch, &version)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return m, nil
	case err != nil:
		return m, asError(err)
	}
	return registry.Mark{Epoch: uint64(max(0, epoch)), Version: uint64(max(0, version))}, nil
}

// Put implements [registry.Store].
func (r *Registry) Put(ctx context.Context, name, value string, life time.Duration) error {
	var ok bool
	err := r.call(ctx, &ok, "registry_put", []byte(name), []byte(value), life.Microseconds(), registry.MaxRecords)
	if err == nil && !ok {
		return registry.ErrFull
	}
	return err
}

// Delete implements [registry.Store].
func (r *Registry) Delete(ctx context.Context, name string) (existed bool, err error) {
	err = r.call(ctx, &existed, "registry_delete", []byte(name), registry.Grave.Microseconds())
	return existed, err
}

// Restore implements [registry.Store].
func (r *Registry) Restore(ctx context.Context, records []registry.Record) (err error) {
	defer recovered(&err)
	var names, values [][]byte
	var versions, lives []int64
	for _, k := range records {
		names, values = append(names, []byte(k.Name)), append(values, []byte(k.Value))
		versions, lives = append(versions, signed(k.Version)), append(lives, k.Left.Microseconds())
	}
	_, err = r.pool.Exec(ctx, "SELECT "+r.schema+".registry_restore("+placeholders(6)+")", r.name, names, values, versions, lives, registry.MaxRecords)
	if err != nil {
		return asError(err)
	}
	return nil
}

// A server that only claims to be PostgreSQL may answer anything.
var errRecords = newError(classProtocol, errors.New("other records than were asked for"))

// Read implements [registry.Store]. Records beyond the bounds are not fetched.
func (r *Registry) Read(ctx context.Context) (c *registry.Contents, err error) {
	defer recovered(&err)
	mark, err := r.Mark(ctx)
	if err != nil {
		return nil, err
	}
	c = &registry.Contents{Mark: mark}
	const sound = "octet_length(name) <= $2 AND octet_length(value) <= $3 AND version > 0"
	from := " FROM " + r.schema + ".record WHERE registry = $1 AND ends > " + r.schema + ".micros() AND "
	rows, err := r.pool.Query(ctx, "SELECT name, value, version, ends - "+r.schema+".micros()"+from+sound+" ORDER BY name LIMIT $4",
		r.name, registry.MaxName, registry.MaxValue, registry.MaxRecords)
	if err != nil {
		return nil, asError(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name, value []byte
		var version, left int64
		if err := rows.Scan(&name, &value, &version, &left); err != nil {
			return nil, asError(err)
		}
		if len(name) > registry.MaxName || len(value) > registry.MaxValue || len(c.Records) == registry.MaxRecords {
			return nil, errRecords
		}
		life := min(time.Duration(min(left, registry.MaxLife.Microseconds()*2))*time.Microsecond, 2*registry.MaxLife)
		if life > 0 { // otherwise it has ended since
			c.Records = append(c.Records, registry.Record{Name: string(name), Value: string(value), Version: uint64(version), Left: life})
		}
	}
	if err := rows.Err(); err != nil {
		return nil, asError(err)
	}
	err = r.pool.QueryRow(ctx, "SELECT count(*)"+from+"NOT ("+sound+")", r.name, registry.MaxName, registry.MaxValue).Scan(&c.Skipped)
	if err != nil {
		return nil, asError(err)
	}
	return c, nil
}
