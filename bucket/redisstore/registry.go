package redisstore

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/fastlimit/fastlimit/bucket/registry"
	"github.com/redis/go-redis/v9"
)

//go:embed registry.lua
var registrySource string

// Registry is a [registry.Store] in one hash next to the buckets, on a separate connection,
// which has more time than requests have. It is safe for concurrent use. Its errors are
// those of [Store].
type Registry struct {
	client *client
	script *redis.Script
	key    string
}

const (
	registryTimeout = time.Second // at least, of a read or write
	// pageFields is about how many fields a call reads: a fraction of a millisecond of
	// Redis' time, so that checks do not wait.
	pageFields = 200
	// registryFields bounds a hash, whatever has filled it.
	registryFields = 2 * registry.MaxRecords
)

// Registry returns the registry of a name that no rule has. Close it after use.
func (s *Store) Registry(name string) *Registry {
	o := *s.driver.client.options
	patience := max(registryTimeout, o.ReadTimeout)
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = patience, patience, patience, patience
	o.PoolSize, o.MaxActiveConns = 2, 2
	o.MaxRedirects = 3 // a command that is sent twice has the effect of one
	return &Registry{newClient(&o, s.driver.config.Logger), redis.NewScript(registrySource), s.driver.config.KeyPrefix + "!" + name}
}

// Close closes its connections.
func (r *Registry) Close() error { return r.client.close() }

// Mark implements [registry.Store]. The script reads the numbers, as other programs may
// have written them with any length.
func (r *Registry) Mark(ctx context.Context) (registry.Mark, error) {
	fields, err := r.run(ctx, "mark").Slice()
	if err != nil {
		return registry.Mark{}, asError(err)
	}
	if len(fields) != 2 {
		return registry.Mark{}, errMark
	}
	return registry.Mark{Epoch: anyNumber(fields[0]), Version: anyNumber(fields[1])}, nil
}

// anyNumber reads a number that another program may have written; it returns 0 for invalid
// ones.
func anyNumber(v any) uint64 {
	s, _ := v.(string)
	n, _ := strconv.ParseUint(s, 10, 53)
	return n
}

// run runs the script, and loads it first if necessary. It does not rely on EVAL, which the
// user may not be allowed to call.
func (r *Registry) run(ctx context.Context, args ...any) *redis.Cmd {
	cmd := r.script.EvalSha(ctx, r.client, []string{r.key}, args...)
	if classify(cmd.Err()) == classNoScript {
		if err := r.script.Load(ctx, r.client).Err(); err != nil {
			cmd.SetErr(err)
			return cmd
		}
		cmd = r.script.EvalSha(ctx, r.client, []string{r.key}, args...)
	}
	return cmd
}

// Put implements [registry.Store].
func (r *Registry) Put(ctx context.Context, name, value string, life time.Duration) error {
	n, err := r.run(ctx, "put", name, value, life.Microseconds(), registryMost).Int()
	switch {
	case err != nil:
		return asError(err)
	case n < 0:
		return registry.ErrFull
	}
	return nil
}

// registryMost is the maximum number of fields, including those that are not records.
const registryMost = registry.MaxRecords + 3

// Delete implements [registry.Store].
func (r *Registry) Delete(ctx context.Context, name string) (existed bool, err error) {
	n, err := r.run(ctx, "delete", name, registry.Grave.Microseconds(), registryMost).Int()
	if err != nil {
		return false, asError(err)
	}
	return n > 0, nil
}

// Restore implements [registry.Store].
func (r *Registry) Restore(ctx context.Context, records []registry.Record) error {
	for len(records) > 0 {
		n := min(len(records), pageFields)
		args := []any{"restore", registryMost}
		for _, k := range records[:n] {
			args = append(args, k.Name, k.Value, strconv.FormatUint(k.Version, 10), k.Left.Microseconds())
		}
		if err := r.run(ctx, args...).Err(); err != nil {
			return asError(err)
		}
		records = records[n:]
	}
	return nil
}

// Read implements [registry.Store]. It reads page by page. A change meanwhile changes the
// mark, and is read the next time.
func (r *Registry) Read(ctx context.Context) (*registry.Contents, error) {
	mark, err := r.Mark(ctx)
	if err != nil {
		return nil, err
	}
	c := &registry.Contents{Mark: mark}
	seen := map[string]bool{}
	for cursor, pages := "0", 0; ; pages++ {
		page, err := r.run(ctx, "page", cursor, pageFields, registry.MaxName, registry.MaxValue).Slice()
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return nil, asError(err)
		}
		if cursor, err = addPage(c, page, seen); err != nil {
			return nil, err
		}
		if cursor == "0" {
			return c, nil
		}
		if len(c.Records)+c.Skipped > registryFields || pages > registryFields {
			return nil, newError(classCorrupt, fmt.Errorf("%s has more than %d fields: delete it", r.key, registryFields))
		}
	}
}

// A server that only claims to be Redis may answer anything.
var (
	errMark = newError(classProtocol, errors.New("unexpected reply of the registry's script to mark"))
	errPage = newError(classProtocol, errors.New("unexpected reply of the registry's script"))
)

// addPage adds a page, and returns the cursor of the next one.
func addPage(c *registry.Contents, page []any, seen map[string]bool) (cursor string, err error) {
	if len(page) < 2 || len(page)%4 != 2 {
		return "", errPage
	}
	cursor, _ = page[0].(string)
	skipped, ok := page[1].(int64)
	if cursor == "" || !ok {
		return "", errPage
	}
	c.Skipped += int(skipped)
	for i := 2; i < len(page); i += 4 {
		name, ok1 := page[i].(string)
		value, ok2 := page[i+1].(string)
		if !ok1 || !ok2 || len(name) > registry.MaxName || len(value) > registry.MaxValue {
			return "", errPage
		}
		if seen[name] || len(c.Records) >= registry.MaxRecords { // a scan may return a field twice
			continue
		}
		seen[name] = true
		c.Records = append(c.Records, registry.Record{
			Name: name, Value: value, Version: anyNumber(page[i+2]), Left: time.Duration(anyNumber(page[i+3])) * time.Microsecond, // 53 bits
		})
	}
	return cursor, nil
}
