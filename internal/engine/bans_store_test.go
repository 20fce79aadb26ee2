package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket/memstore"
	"github.com/fastlimit/fastlimit/limit"
)

// A denial by the store that nodes share counts towards a ban, and one by the failure policy
// does not: nobody knows whether the client is over its limit.
func TestStoreDenialsCountTowardsBans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // a store that answers late would decide nothing
		c := withBan(withStrict(rule("a", 2, time.Hour, 2)), limit.BanPolicy{After: 1, For: time.Minute})
		store := memstore.New(memstore.Config{})
		defer func() { _ = store.Close(t.Context()) }()
		first, second := sharedLimiter(t, store, c).rules[0], sharedLimiter(t, store, c).rules[0]
		key := func(r *Rule) Key { return r.BytesKey([]byte("x")) }
		for first.Take(t.Context(), key(first), 1).Allowed {
		}
		if d := second.Take(t.Context(), key(second), 1); d.Allowed || d.Stage != limit.StageBan || d.RetryAfter > time.Minute {
			t.Errorf("denied by the store: %+v, want a ban", d)
		}
		c.OnFailure = limit.FailClosed
		away := sharedLimiter(t, nowhere{}, c).rules[0]
		if d := away.Take(t.Context(), key(away), 1); d.Allowed || d.Stage != limit.StageFallback {
			t.Errorf("denied by the failure policy: %+v", d)
		}
	})
}
