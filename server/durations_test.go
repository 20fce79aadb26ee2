package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/server/internal/latency"
)

// count is how many observations there are in all.
func count(all ...latency.Counts) (n int) {
	for i := range all {
		for _, b := range all[i].Buckets {
			n += int(b)
		}
	}
	return n
}

// About one of 61 requests is sampled, whoever answers it: its decision by the stage that
// made it, the request by what was decided.
func TestRequestsAreSampled(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	t.Cleanup(app.Close)
	const requests = 20 * latency.Every
	for name, request := range ways {
		for _, behind := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, behind a proxy: %t", name, behind), func(t *testing.T) {
				t.Parallel()
				set := perIP()
				set.Rules[0].Limit.Rate, set.Rules[0].Limit.Burst = fastlimit.Rate{N: 1, Per: time.Hour}, requests/2
				s := start(t, set, func(c *Config) {
					if behind {
						c.Upstream = &Upstream{URLs: []string{app.URL}}
					}
				})
				c := dial(t, s.addr)
				for range requests / 20 {
					fmt.Fprint(c, strings.Repeat(request, 20))
					answers(t, c, 20)
				}
				d := s.durations()
				admitted, denied, decided := count(d.Allowed), count(d.Denied), count(d.Decisions...)
				// Each goroutine that takes over begins anywhere within a round.
				if admitted < 3 || admitted > 30 || denied < 3 || denied > 30 {
					t.Errorf("%d of %d admitted requests and %d of as many denied ones are sampled", admitted, requests/2, denied)
				}
				if decided != admitted+denied {
					t.Errorf("%d decisions of %d requests", decided, admitted+denied)
				}
				if table := count(d.Decisions[fastlimit.StageTable]); table < denied-5 || table > denied {
					t.Errorf("%d decisions of the table, %d denied", table, denied)
				}
				if !behind {
					return
				}
				up := s.stats().Upstream
				if n := up.Servers[0].Requests; n != requests/2 {
					t.Errorf("%d requests reached the upstream, %d are admitted", n, requests/2)
				}
				if n := count(up.Servers[0].FirstByte); n != int(up.Servers[0].Requests) {
					t.Errorf("%d first bytes of %d requests", n, up.Servers[0].Requests)
				}
				if n := count(up.Servers[0].Connect); n != int(up.Servers[0].Dials) {
					t.Errorf("%d times to connect of %d dials", n, up.Servers[0].Dials)
				}
			})
		}
	}
}

// The time in a queue is counted for each request that waits, and shows in its decision too. A connection
// that waits has its own state.
func TestTimeInLine(t *testing.T) {
	t.Parallel()
	s := start(t, waitRule(1))
	c := dial(t, s.addr)
	fmt.Fprint(c, strings.Repeat(ways["resident"], 2))
	s.waiting(t, 1)
	eventually(t, func() bool { return s.conns.States()["in_line"] == 1 })
	if n := count(s.durations().Waited); n != 0 {
		t.Errorf("%d have waited before the first has ended", n)
	}
	c.Close()
	s.waiting(t, 0)
	eventually(t, func() bool { return count(s.durations().Waited) == 1 })
	eventually(t, func() bool { return s.conns.Open() == 0 })
}
