package memstore_test

import (
	"context"
	"testing"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/memstore"
	"github.com/fastlimit/fastlimit/bucket/storetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, clock *storetest.Clock) bucket.Store {
		s := memstore.New(memstore.Config{Now: clock.Now})
		t.Cleanup(func() { _ = s.Close(context.Background()) })
		return s
	})
}
