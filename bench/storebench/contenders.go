package storebench

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket"
)

// Patience is long enough for a store to answer every check.
const Patience = time.Second

// Open connects a store. A check that is not answered in time is answered without the
// store, and looks cheap: timeout must be long enough for what is measured.
type Open func(ctx context.Context, timeout time.Duration) (bucket.Store, error)

// ViaLimiter takes through a rule that checks every request exactly. It has no part in
// denials: the limiter knows who is over its limit, and asks nobody.
func ViaLimiter(open Open) Way {
	return func(ctx context.Context, l Load) (*Contender, error) {
		if l.Denied() {
			return nil, nil
		}
		store, err := open(ctx, Patience)
		if err != nil {
			return nil, err
		}
		c := &Contender{
			Name: "fastlimit", Setup: "limiter, strict rule; micro-batches",
			Close: func() error { return CloseStore(store) },
		}
		_, rule, err := Limiter(store, Patience, fastlimit.RuleConfig{
			Rate: fastlimit.Rate{N: 1, Per: l.Per}, Burst: l.Burst, Strict: true, OnFailure: fastlimit.FailClosed,
		})
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		keys := make([]fastlimit.Key, Keys)
		for i := range keys {
			keys[i] = rule.BytesKey([]byte(Key(i)))
		}
		c.Check = func(ctx context.Context, key int) (bool, error) {
			d := rule.Take(ctx, keys[key], 1)
			if d.Stage != fastlimit.StageExact {
				return false, fmt.Errorf("decided without the store, by %v", d.Stage)
			}
			return d.Allowed, nil
		}
		return c, nil
	}
}

// ViaStore is the store alone, of a package of that name: every check asks it.
func ViaStore(name string, open Open) Way {
	return func(ctx context.Context, l Load) (*Contender, error) {
		shape, err := bucket.NewShape(1, l.Per, l.Burst)
		if err != nil {
			return nil, err
		}
		store, err := open(ctx, Patience)
		if err != nil {
			return nil, err
		}
		return &Contender{
			Name: "fastlimit's store", Setup: name + "; micro-batches",
			Close: func() error { return CloseStore(store) },
			Check: func(_ context.Context, key int) (bool, error) {
				type outcome struct {
					reply bucket.Reply
					err   error
				}
				answer := make(chan outcome, 1)
				err := store.Submit(&bucket.Op{
					Kind: bucket.Take, Key: "bench:" + Key(key), Shape: shape, Cost: shape.Unit(), Count: 1,
					Done: func(_ *bucket.Op, r bucket.Reply, err error) { answer <- outcome{r, err} },
				})
				if err != nil {
					return false, err
				}
				o := <-answer
				return o.reply.Granted == 1, o.err
			},
		}, nil
	}
}

// Connect opens a store, again and again for ten seconds while it counts as away: a server
// that has just been started may answer later than it should when it is measured. Where
// nobody listens it does not wait.
func Connect[S interface {
	comparable
	bucket.Store
}](ctx context.Context, open func(context.Context) (S, error)) (S, error) {
	const patience, pause = 10 * time.Second, 10 * time.Millisecond
	tries, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var none S
	for {
		s, err := open(tries)
		if err == nil || s == none {
			return s, err
		}
		closed := CloseStore(s)
		if tries.Err() != nil || errors.Is(err, syscall.ECONNREFUSED) {
			return none, errors.Join(err, closed)
		}
		select {
		case <-tries.Done():
		case <-time.After(pause):
		}
	}
}

// CloseStore waits for operations under way.
func CloseStore(s bucket.Store) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return s.Close(ctx)
}

// Limiter returns a limiter with one rule, and that rule.
func Limiter(s bucket.Store, timeout time.Duration, rule fastlimit.RuleConfig) (*fastlimit.Limiter, *fastlimit.Rule, error) {
	rule.Name = "bench"
	lim, err := fastlimit.New(fastlimit.Config{Rules: []fastlimit.RuleConfig{rule}, Store: s, StoreTimeout: timeout})
	if err != nil {
		return nil, nil, err
	}
	r, ok := lim.Rule(rule.Name)
	if !ok {
		return nil, nil, errors.New("BUG: the rule is not there")
	}
	return lim, r, nil
}
