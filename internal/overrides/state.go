package overrides

import (
	"context"
	"time"

	"github.com/fastlimit/fastlimit/bucket/registry"
)

// Saved is an override for the next process, or the record of a deletion. Names and values may contain
// invalid UTF-8.
type Saved struct {
	Name, Value []byte
	Version     uint64
	Left        time.Duration // when it was saved
}

// Save returns what would end with the process: nothing if a store keeps it.
func (s *Set) Save() (all []Saved) {
	if !s.local {
		return nil
	}
	for _, r := range s.records() {
		all = append(all, Saved{[]byte(r.Name), []byte(r.Value), r.Version, r.Left})
	}
	return all
}

// Restore applies overrides that were saved age ago, except those that have changed since or ended. They are
// in force when it returns. With a store, which has them already, it does nothing. It returns how many are in
// force because of it. Call it after Start.
func (s *Set) Restore(ctx context.Context, all []Saved, age time.Duration) (n int, err error) {
	if !s.local {
		return 0, nil
	}
	var records []registry.Record
	for _, o := range all {
		if left := min(o.Left, registry.MaxLife) - age; left > 0 && len(o.Name) <= registry.MaxName && len(o.Value) <= registry.MaxValue {
			records = append(records, registry.Record{Name: string(o.Name), Value: string(o.Value), Version: o.Version, Left: left})
		}
	}
	if len(records) == 0 {
		return 0, nil
	}
	if err = s.config.Store.Restore(ctx, records); err == nil {
		err = s.await(ctx)
	}
	for _, r := range records {
		if e := s.find(r.Name); e != nil && e.inForce() && e.record.Version == r.Version {
			n++
		}
	}
	return n, err
}
