package pgstore

import (
	"context"
	"sync"
	"time"
)

const (
	// prunePages is how many pages one statement of pruning looks at: some 10,000
	// rows, which takes milliseconds.
	prunePages = 128
	// pruneRest is how much longer than it took a step of pruning is followed by none.
	pruneRest = 4
)

// pruner deletes expired rows from time to time, as long as the store is not away.
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

// rest waits, and reports whether ctx has not ended.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// prune goes through the table once. It stops at an error: operations will run into
// the same one, and say so.
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

// pruneStep looks at some pages. next is where to go on: 0 at the end of the table,
// nil if another node is at it.
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
