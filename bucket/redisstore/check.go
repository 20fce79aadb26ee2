package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/redis/go-redis/v9"
)

// check reports whether every primary can do the work: it answers, is Redis 6.2
// or later or Valkey, accepts writes, and runs the script. The error is a
// [remote.Error] that names the fix.
func (d *driver) check(ctx context.Context) error {
	return d.checkBy(ctx, d.checkServer, d.Exec, probeTake)
}

// checkBy reports whether server finds nothing wrong with any primary, and operations
// succeed.
func (d *driver) checkBy(ctx context.Context, server func(context.Context, *redis.Client) error, exec execute, op func(i int) *bucket.Op) error {
	ctx, cancel := context.WithTimeout(ctx, 4*d.config.batchTimeout())
	defer cancel()
	err := d.client.eachPrimary(ctx, server)
	if err == nil {
		_, err = probe(ctx, exec, checkKeys, op)
	}
	if err != nil {
		return d.diagnose(ctx, asError(err))
	}
	return nil
}

func (d *driver) checkServer(ctx context.Context, c *redis.Client) error {
	step := func(what string, err error) error {
		if err == nil {
			return nil
		}
		return newError(classify(err), fmt.Errorf("%s: %w", what, err))
	}
	if err := step("PING", c.Ping(ctx).Err()); err != nil {
		return err
	}
	if err := step("TIME", c.Time(ctx).Err()); err != nil {
		return err
	}
	info, err := c.Info(ctx).Result() // sections cannot be combined before 7.0
	if err != nil && classify(err) != classNoPerm {
		return step("INFO", err)
	}
	if err := checkInfo(info); err != nil {
		return err
	}
	return step("SCRIPT LOAD", d.loadInto(ctx, c))
}

// checkInfo checks version and role in the reply to INFO. It is empty if the
// user may not call INFO; then only the probe shows whether the script runs.
func checkInfo(info string) error {
	if info == "" {
		return nil
	}
	field := func(name string) string {
		_, v, _ := strings.Cut("\n"+info, "\n"+name+":")
		v, _, _ = strings.Cut(v, "\n")
		return strings.TrimSpace(v)
	}
	v := field("redis_version")
	var version [2]int
	if n, _ := fmt.Sscanf(v, "%d.%d", &version[0], &version[1]); n < 2 || slices.Compare(version[:], []int{6, 2}) < 0 {
		return newError(classOther, fmt.Errorf("redis_version %q: want 6.2 or later, or Valkey", v))
	}
	if field("role") == "slave" {
		return newError(classReadOnly, fmt.Errorf("this is a replica of %s:%s", field("master_host"), field("master_port")))
	}
	return nil
}

// checkKeys is how many buckets a check takes from, as does a probe of a cluster: enough
// for each of a dozen nodes to have some. A node of a cluster that is mistaken for a single
// server refuses those of other nodes.
const checkKeys = 64

// Probe implements [remote.Driver].
func (d *driver) Probe(ctx context.Context) error { return d.usable(ctx, d.Exec, probeTake) }

// execute is [remote.Driver.Exec].
type execute func(ctx context.Context, ops []*bucket.Op, settle remote.Settle)

// usable reports whether most of some operations succeed: a cluster of which less than half
// fails is usable, as it is for batches.
func (d *driver) usable(ctx context.Context, exec execute, op func(i int) *bucket.Op) error {
	if d.client.cluster == nil {
		_, err := probe(ctx, exec, 1, op)
		return err
	}
	failed, err := probe(ctx, exec, checkKeys, op)
	if failed > 0 {
		d.client.reload(ctx)
	}
	if 2*failed < checkKeys {
		return nil
	}
	return err
}

func probeTake(i int) *bucket.Op { return remote.ProbeTake(strconv.Itoa(i)) }

// probe carries out n operations. It returns how many failed, and the first error.
func probe(ctx context.Context, exec execute, n int, op func(i int) *bucket.Op) (failed int, first error) {
	ops := make([]*bucket.Op, n)
	for i := range ops {
		ops[i] = op(i)
	}
	exec(ctx, ops, func(_ *bucket.Op, _ bucket.Reply, err error) {
		if err != nil {
			failed++
			first = cmp.Or(first, err)
		}
	})
	return failed, first
}

// measureTimeout is the longest round trip that is measured.
const measureTimeout = time.Second

// Measure implements [remote.Driver]. It asks all primaries at the same time, on separate
// connections, since those of operations time out early.
func (d *driver) Measure(ctx context.Context, trips []time.Duration) error {
	o := *d.client.options
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = measureTimeout, measureTimeout, measureTimeout
	o.PoolSize, o.MaxActiveConns, o.PoolTimeout = 1, 1, measureTimeout
	c := newClient(&o, d.config.Logger)
	hangUp := sync.OnceFunc(func() { _ = c.close() })
	defer hangUp()
	defer context.AfterFunc(ctx, hangUp)()
	var mu sync.Mutex // guards trips
	return c.eachPrimary(ctx, func(ctx context.Context, c *redis.Client) error {
		if err := c.Ping(ctx).Err(); err != nil { // connects
			return err
		}
		for i := range trips {
			start := time.Now()
			if err := c.Ping(ctx).Err(); err != nil {
				return err
			}
			mu.Lock()
			trips[i] = max(trips[i], time.Since(start))
			mu.Unlock()
		}
		return nil
	})
}
