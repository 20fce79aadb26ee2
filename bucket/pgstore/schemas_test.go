package pgstore

import (
	"strconv"
	"sync"
	"testing"
)

// schemas are those of a server, for one store after the other: to make one costs ten times
// as much as to empty it. It is safe for concurrent use.
type schemas struct {
	mu   sync.Mutex
	free []string // guarded by mu
	made int      // guarded by mu
}

// lend gives c a schema that nobody else has until the test ends. Others may have been in it,
// see [emptied].
func (p *schemas) lend(t testing.TB, c Config) Config {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		c.Schema, p.free = p.free[n-1], p.free[:n-1]
	} else {
		p.made++
		c.Schema = "lent" + strconv.Itoa(p.made)
		mustInit(t, c)
	}
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.free = append(p.free, c.Schema)
	})
	return c
}

// emptied returns a store without the buckets of others before it.
func emptied(t testing.TB, s *Store) *Store {
	t.Helper()
	if _, err := s.driver.pool.Exec(t.Context(), "DELETE FROM "+s.driver.config.Schema+".bucket"); err != nil {
		t.Fatal(err)
	}
	return s
}
