package main

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// sender asks nodes for one client, each at its own pace. Late requests are not
// made up for: a client that has to keep within its limit must not bunch what
// the machine delayed.
type sender struct {
	from   string  // its address, of the loopback
	header string  // or what it is to a proxy: X-Forwarded-For
	rate   float64 // at each node, in requests/s

	mu  sync.Mutex
	log []answer // guarded by mu
}

// answer is one request with its time and what became of it.
type answer struct {
	at       time.Time
	admitted bool
}

func (s *sender) run(ctx context.Context, t *testing.T, nodes []*process) {
	var all sync.WaitGroup
	every := time.Duration(float64(time.Second) / s.rate)
	for i, p := range nodes {
		all.Go(func() {
			c := http.DefaultClient
			if s.from != "" {
				c = clientFrom(t, s.from)
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.listen+"/", nil)
			if err != nil {
				t.Error(err)
				return
			}
			if s.header != "" {
				req.Header.Set("X-Forwarded-For", s.header)
			}
			next := time.Now().Add(every * time.Duration(i) / time.Duration(len(nodes)))
			for {
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Until(next)):
				}
				at := time.Now()
				next = at.Add(every)
				resp, err := c.Do(req)
				if err != nil {
					t.Errorf("%s%s: %v", s.from, s.header, err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				s.mu.Lock()
				s.log = append(s.log, answer{at, resp.StatusCode == http.StatusOK})
				s.mu.Unlock()
			}
		})
	}
	all.Wait()
}

// since counts what was sent and admitted since then, and the seconds that it
// took by the sender's clock.
func (s *sender) since(start time.Time) (sent, admitted int, seconds float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.log {
		if a.at.Before(start) {
			continue
		}
		sent++
		if a.admitted {
			admitted++
		}
	}
	return sent, admitted, time.Since(start).Seconds()
}

// flooded waits until each of them has sent so many requests a second for that long, however
// slow the machine is, and returns since when.
func flooded(t *testing.T, perSecond float64, long time.Duration, senders ...*sender) (since time.Time) {
	t.Helper()
	since = time.Now()
	testkit.Eventually(t, "a flood", func() bool {
		if time.Since(since) < long {
			return false
		}
		for _, s := range senders {
			if sent, _, seconds := s.since(since); float64(sent) < perSecond*seconds {
				since = time.Now()
				return false
			}
		}
		return true
	})
	return since
}
