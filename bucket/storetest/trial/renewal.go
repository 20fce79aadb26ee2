package trial

import (
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/registry"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/internal/testkit"
)

// Renewal is a store, and a registry on it, whose login changes while both are used.
type Renewal struct {
	Store    bucket.Store
	Registry registry.Store
	Stats    func() remote.Stats
	Change   func()       // has the server want another login, and end its connections
	Renew    func() error // has the store log in so
}

// Run checks that both go on once they are told.
func (r Renewal) Run(t *testing.T) {
	t.Helper()
	load := StartLoad(t, r.Store)
	load.Progress("works at first")
	if err := r.Registry.Put(t.Context(), "a", "b", time.Hour); err != nil {
		t.Fatal(err)
	}
	r.Change()
	testkit.Eventually(t, "that shows", func() bool { return r.Stats().Trips > 0 })
	if err := r.Renew(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the breaker closes", func() bool { return r.Stats().State == "closed" })
	load.Progress("works again")
	load.End()
	read := false
	for range 3 { // whose connections have been ended
		k, err := r.Registry.Read(t.Context())
		if read = err == nil && len(k.Records) == 1; read {
			break
		}
	}
	if !read {
		t.Error("the registry does not work again")
	}
}
