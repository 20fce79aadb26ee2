package count

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/fastlimit/fastlimit/internal/rls/descriptor"
)

// units has a T for each unit that is in use. It is safe for concurrent use.
type units[T any] struct {
	all    [8]atomic.Pointer[T]
	making sync.Mutex
}

// get returns that of a unit, which create makes if there is none.
func (a *units[T]) get(u descriptor.Unit, create func() (*T, error)) (*T, error) {
	if !u.Valid() {
		return nil, fmt.Errorf("fastlimit/rls: unit %d is none", u)
	}
	if t := a.all[u].Load(); t != nil {
		return t, nil
	}
	a.making.Lock()
	defer a.making.Unlock()
	if t := a.all[u].Load(); t != nil {
		return t, nil
	}
	t, err := create()
	if err == nil {
		a.all[u].Store(t)
	}
	return t, err
}

// each calls f with all that there are.
func (a *units[T]) each(f func(*T)) {
	for i := range a.all {
		if t := a.all[i].Load(); t != nil {
			f(t)
		}
	}
}
