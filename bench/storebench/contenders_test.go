package storebench

import (
	"cmp"
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/memstore"
)

// closing counts how often it was closed.
type closing struct {
	*memstore.Store

	closed int
}

func (c *closing) Close(ctx context.Context) error {
	c.closed++
	return c.Store.Close(ctx)
}

// A store that is away at first is opened anew, one that stays away for ten seconds is an
// error, and so is at once one that does not open or where nobody listens. Only what is
// returned is open.
func TestConnect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		away int // openings that find the store away
		err  error
		took time.Duration
	}{
		"here":       {},
		"away twice": {away: 2, took: 20 * time.Millisecond},
		"away":       {away: 1e9, err: bucket.ErrAway, took: 10 * time.Second},
		"silent":     {away: 1e9, err: context.DeadlineExceeded, took: 10 * time.Second},
		"no store":   {err: errors.ErrUnsupported},
		"refused":    {away: 1e9, err: syscall.ECONNREFUSED},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var opened []*closing
				begun := time.Now()
				got, err := Connect(t.Context(), func(ctx context.Context) (*closing, error) {
					if errors.Is(c.err, context.DeadlineExceeded) {
						<-ctx.Done()
					}
					if c.away == 0 && c.err != nil {
						return nil, c.err
					}
					opened = append(opened, &closing{Store: memstore.New(memstore.Config{})})
					if len(opened) <= c.away {
						return opened[len(opened)-1], cmp.Or(c.err, bucket.ErrAway)
					}
					return opened[len(opened)-1], nil
				})
				if !errors.Is(err, c.err) || (got == nil) != (c.err != nil) || time.Since(begun) != c.took {
					t.Errorf("%v after %v, want %v after %v", err, time.Since(begun), c.err, c.took)
				}
				for i, s := range opened {
					if s == got {
						_ = CloseStore(s)
					}
					if s.closed != 1 {
						t.Errorf("opening %d of %d was closed %d times", i, len(opened), s.closed)
					}
				}
			})
		})
	}
}
