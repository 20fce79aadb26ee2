package peers

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/bench/inproc"
	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/go-chi/httprate"
)

// HTTPRate is github.com/go-chi/httprate with its local counter: a sliding window for
// each client, the weighted sum of two. The nearest to a rate and a burst is
// the burst in each window of B/r.
func HTTPRate() inproc.Contender {
	return inproc.Contender{
		Name:     "httprate",
		Setup:    "go-chi/httprate local counter (sliding window), B requests per window of B/r, through OnLimit with reused headers; strings of address bytes; reads the clock itself",
		OwnClock: true,
		New: func(r oracle.Rule) (inproc.Limiter, error) {
			request, err := http.NewRequest(http.MethodGet, "http://localhost/", nil)
			if err != nil {
				return nil, err
			}
			return &httpRate{
				limiter: httprate.NewRateLimiter(int(r.Burst), r.Window()),
				request: request,
				writers: sync.Pool{New: func() any { return headerOnly{} }},
			}, nil
		},
	}
}

type httpRate struct {
	limiter *httprate.RateLimiter
	request *http.Request // read only
	writers sync.Pool
}

func (l *httpRate) Allow(addr netip.Addr, _ time.Duration) bool {
	w := l.writers.Get().(headerOnly)
	defer l.writers.Put(w)
	return !l.limiter.OnLimit(w, l.request, name(addr))
}

// headerOnly is a response whose headers are kept and overwritten.
type headerOnly http.Header

func (h headerOnly) Header() http.Header         { return http.Header(h) }
func (h headerOnly) Write(b []byte) (int, error) { return len(b), nil }
func (h headerOnly) WriteHeader(int)             {}
