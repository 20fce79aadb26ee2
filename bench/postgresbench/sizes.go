//go:build linux

package postgresbench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/bench/report"
	"github.com/fastlimit/fastlimit/bench/storebench"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/pgstore"
)

// sizes are those of the table with many suspects, after they have been pruned, and with
// as many others after that.
func (t *target) sizes(ctx context.Context, suspects int) (results []report.Result, err error) {
	t.server.Do("TRUNCATE fastlimit.bucket")
	add := func(workload, setup string, rows int) error {
		t.server.Do("VACUUM fastlimit.bucket") // as autovacuum does, sooner or later
		var size, index int64
		for what, to := range map[string]*int64{"pg_total_relation_size": &size, "pg_indexes_size": &index} {
			n, err := strconv.ParseInt(t.server.Do("SELECT "+what+"('fastlimit.bucket')"), 10, 64)
			if err != nil {
				return err
			}
			*to = n
		}
		results = append(results, report.Result{
			Group: "postgres", Workload: workload, Limiter: "fastlimit's store", Setup: fmt.Sprintf("%s; %d MiB of it are the index", setup, index>>20),
			Keys: int64(rows), StoreBytes: &size,
		})
		return nil
	}
	if err = t.fill(ctx, "per-ip:2001:db8::a", suspects); err == nil {
		err = add("table, suspects", "rows of a leaky bucket with an IPv6 client", suspects)
	}
	if err != nil {
		return results, err
	}
	took, err := t.pruneAll(ctx, suspects)
	if err == nil {
		err = add("table, all of them pruned", fmt.Sprintf("pruned within %v, of which four fifths are rests", took.Round(100*time.Millisecond)), 0)
	}
	if err == nil {
		err = t.fill(ctx, "per-ip:2001:db8::b", suspects)
	}
	if err == nil {
		err = add("table, as many others", "after that", suspects)
	}
	return results, err
}

// fill makes a row for each of so many suspects; they expire within 2 s.
func (t *target) fill(ctx context.Context, prefix string, suspects int) error {
	shape, err := bucket.NewShape(1, time.Second, 10)
	if err != nil {
		return err
	}
	c := t.config
	c.Prune = 24 * time.Hour
	store, err := pgstore.Open(ctx, c)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var failed error
	var wg sync.WaitGroup
	slots := make(chan struct{}, 1024) // below the store's queue
	for i := range suspects {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case slots <- struct{}{}:
			wg.Add(1)
			err = store.Submit(&bucket.Op{
				Kind: bucket.Take, Key: prefix + strconv.Itoa(i), Shape: shape, Cost: shape.Unit(), Count: 1,
				Done: func(_ *bucket.Op, _ bucket.Reply, err error) {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
					<-slots
					wg.Done()
				},
			})
			if err != nil {
				wg.Done()
			}
		}
		if err != nil {
			break
		}
	}
	wg.Wait()
	return errors.Join(err, failed, storebench.CloseStore(store))
}

// pruneAll waits until a node has pruned so many rows, and returns how long that took.
func (t *target) pruneAll(ctx context.Context, rows int) (took time.Duration, err error) {
	c := t.config
	c.Prune = 10 * time.Millisecond
	time.Sleep(2 * time.Second) // for the last ones to expire
	start := time.Now()
	store, err := pgstore.Open(ctx, c)
	if err != nil {
		return 0, err
	}
	for err == nil && store.Stats().Pruned < uint64(rows) {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return time.Since(start), errors.Join(err, storebench.CloseStore(store))
}
