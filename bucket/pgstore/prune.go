package pgstore

import (
	"context"
	"sync"
	"time"
)

const (
	// prunePages is how many pages one statement of pruning reads: some 10,000 rows, which
	// takes milliseconds.
	prunePages = 128
	// pruneRest is the pause after a step of pruning as a multiple of the step's duration.
	pruneRest = 4
)

// pruner deletes expired rows from time to time, unless the store is unavailable.
type pruner struct {
	stop context.CancelFunc
	done sync.WaitGroup
}

func (p *pruner) start(s *Store) {
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	p.done.Go(func() {
		for rest(ctx, s.driver.config.Prune) {
			if s.Store.Stats().State == "closed" {
				s.driver.prune(ctx)
			}
		}
	})
}

func (p *pruner) end() {
	p.stop()
	p.done.Wait()
}

// rest waits, and reports whether ctx is still valid.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// prune scans the table once. It stops at an error: operations will run into the same one,
// and report it.
func (d *driver) prune(ctx context.Context) {
	for page := int64(0); ; {
		start := time.Now()
		next, err := d.pruneStep(ctx, page)
		if err != nil || next == nil || *next == 0 {
			return
		}
		page = *next
		if !rest(ctx, pruneRest*time.Since(start)) {
			return
		}
	}
}

// pruneStep prunes some pages. next is the page to continue from: 0 at the end of the
// table, nil if another node is pruning.
func (d *driver) pruneStep(ctx context.Context, page int64) (next *int64, err error) {
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var deleted int64
	err = d.pool.QueryRow(ctx, d.sql.prune, page, int64(prunePages)).Scan(&deleted, &next)
	if err == nil {
		d.counters.pruned.Add(uint64(deleted))
	}
	return next, err
}
