package exact

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/memstore"
	"github.com/fastlimit/fastlimit/limit"
)

// TestStalledAnswerConvictsNobody has the process stand still while an answer of
// the store waits for it, with the request that asked. What the store charged
// 200 ms ago is charged to the table as of then.
func TestStalledAnswerConvictsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewShared(newBuckets(t, limit.RuleConfig{Rate: limit.Rate{N: 10, Per: time.Second}, Burst: 1}), "a", away{}, timeout)
		client, cost, sent := clientNamed("client"), s.Shape.Cost(1), s.Clock.Now()
		f := s.flight(client)
		w := s.waiter(claim{cost: cost, count: 1, deadline: sent + s.timeout})
		f.sent, f.asked = sent, append(f.asked, w)
		time.Sleep(200 * time.Millisecond)
		f.feedTableLocked(bucket.Reply{Granted: 1, Level: cost}, s.Clock.Now())
		if d := <-w.verdict; !d.Allowed {
			t.Fatalf("granted: %+v", d)
		}
		if got, most := s.Table.Lookup(client.Digest), s.Shape.Ticks(sent)+cost; got > most {
			t.Errorf("the table has the bucket busy until %d, the store until %d", got, most)
		}
		time.Sleep(10 * time.Millisecond)
		if d := s.Take(t.Context(), client, cost, s.Clock.Now(), limit.FailLocal); !d.Allowed || !d.Degraded {
			t.Errorf("210 ms after the first, at one in 100 ms: %+v", d)
		}
	})
}

// What is given back and what is forgiven fits at once, whatever the store has said.
func TestRefundsOpenWhatIsShut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		store := memstore.New(memstore.Config{Now: func() uint64 { return uint64(time.Since(start).Microseconds()) + 1 }})
		defer store.Close(t.Context())
		s := NewShared(newBuckets(t, limit.RuleConfig{Rate: limit.Rate{N: 10, Per: time.Minute}, Algorithm: limit.SlidingWindow}), "a", store, timeout)
		take := func(c Client) limit.Decision { return s.Take(t.Context(), c, 1, s.Clock.Now(), limit.FailClosed) }
		for _, change := range []func(Client){func(c Client) { s.Refund(c, 1) }, s.Reset} {
			client := clientNamed("x")
			if d := take(client); !d.Allowed {
				t.Errorf("%+v", d)
			}
			s.shut.put(client.Digest, s.Clock.Now()+time.Hour)
			if d := take(client); d.Allowed || d.Stage != limit.StageTable {
				t.Errorf("%+v while it is shut", d)
			}
			if d := take(clientNamed("y")); !d.Allowed {
				t.Errorf("another client: %+v", d)
			}
			change(client)
			if d := take(client); !d.Allowed {
				t.Errorf("%+v after units were given back", d)
			}
		}
	})
}
