package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// OpenConfig is a load that does not depend on the server: requests are due at
// fixed times, as if sent by clients who know nothing of each other.
type OpenConfig struct {
	Target Target
	// Rate is in requests per second, all connections together.
	Rate float64
	// Duration is the time over which requests are due.
	Duration time.Duration
	// Conns is the number of connections. Requests wait for a free one, and
	// that wait counts: with fewer connections than the server answers at
	// once, the wait is the generator's own.
	Conns int
	// Sources are the addresses to connect from, in turn; none means any.
	Sources []net.IP
	// Judge, if not nil, is told of every request that was sent: by which
	// connection, when it was sent and answered since the start, and the
	// status, 0 without an answer. Calls for one connection come one after the
	// other, those for several at the same time.
	Judge func(conn int, sent, answered time.Duration, status int)
}

// Outcome is what an open loop measured. All times are in nanoseconds.
type Outcome struct {
	Counts
	// Latency is the time from the moment a request was due to its answer:
	// what a client would have waited.
	Latency *hdrhistogram.Histogram
	// Service is the time from the moment it was sent, which leaves out the
	// requests that could not be sent while the server stalled ("coordinated
	// omission"). It is here to be compared.
	Service *hdrhistogram.Histogram
	// Lag is how late the generator sent where a connection was free: what of
	// Latency is its own doing.
	Lag *hdrhistogram.Histogram
	// Unsent is the number of requests that were due but never sent, because
	// the server was too far behind when time was up.
	Unsent int64
	// Intervals are the answers by the time at which their request was due, in
	// steps of [Step].
	Intervals []Interval
}

// Step is the length of an [Interval].
const Step = 250 * time.Millisecond

// Interval is what became of the requests due in one step of a run.
type Interval struct{ Answers, Denied int64 }

// NewOutcome returns an empty outcome of a load that lasts d.
func NewOutcome(d time.Duration) *Outcome {
	return &Outcome{Latency: NewHistogram(), Service: NewHistogram(), Lag: NewHistogram(), Intervals: make([]Interval, (d+Step-1)/Step)}
}

// NewHistogram returns an empty one of times in ns, from 1 µs to 1 min in steps of
// 0.1 %: 270 KB.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(time.Microsecond), int64(time.Minute), 3)
}

// Add joins the outcome of a load that began at the same time and lasted as
// long.
func (o *Outcome) Add(p *Outcome) {
	o.Unsent += p.Unsent
	o.Counts.merge(&p.Counts)
	o.Latency.Merge(p.Latency)
	o.Service.Merge(p.Service)
	o.Lag.Merge(p.Lag)
	for i, v := range p.Intervals {
		o.Intervals[i].Answers += v.Answers
		o.Intervals[i].Denied += v.Denied
	}
}

// Validate reports what is wrong with the configuration.
func (c *OpenConfig) Validate() error {
	if !(c.Rate > 0) || c.Duration <= 0 || c.Conns < 1 {
		return fmt.Errorf("bench: rate %v, duration %v, %d connections: want more than 0 of each", c.Rate, c.Duration, c.Conns)
	}
	if n := c.Rate * c.Duration.Seconds(); n < 1 || n > math.MaxInt32 {
		return fmt.Errorf("bench: rate %v for %v makes %.3g requests: want 1 to 2^31", c.Rate, c.Duration, n)
	}
	return nil
}

// Open runs the load. A request without an answer is counted and its connection
// replaced; an answer that is none of HTTP ends the run. The outcome is valid
// beside an error, for what was done until then.
func Open(ctx context.Context, c OpenConfig) (*Outcome, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	clients, err := newClients(ctx, &c.Target, c.Conns, c.Sources)
	if err != nil {
		return nil, err
	}
	defer closeAll(clients)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer, err := newAlarm()
	if err != nil {
		return nil, err
	}
	defer timer.close()
	sleep := timer.sleep
	if c.Target.sleep != nil {
		sleep = c.Target.sleep
	}
	s := newSchedule(c, sleep)
	outcomes := make([]*Outcome, len(clients))
	var wg sync.WaitGroup
	for i, client := range clients {
		outcomes[i] = NewOutcome(c.Duration)
		wg.Go(func() {
			if err := client.follow(ctx, s, i, outcomes[i]); err != nil {
				cancel(err)
			}
		})
	}
	pacing, stopPacing := context.WithCancel(ctx)
	defer stopPacing()
	defer context.AfterFunc(pacing, timer.stop)()
	var pacer sync.WaitGroup
	pacer.Go(func() { s.pace(pacing) })
	wg.Wait()
	stopPacing()
	pacer.Wait()
	all := NewOutcome(c.Duration)
	for _, o := range outcomes {
		all.Add(o)
	}
	all.Unsent = s.n - all.Total() - all.Failed
	return all, context.Cause(ctx)
}

// schedule tells when requests are due.
type schedule struct {
	judge      func(conn int, sent, answered time.Duration, status int)
	sleep      func(time.Duration)
	start, end time.Time
	gap        float64 // ns between requests
	n          int64
	due        chan time.Duration // since start; closed after the last
}

func newSchedule(c OpenConfig, sleep func(time.Duration)) *schedule {
	s := &schedule{
		judge: c.Judge, sleep: sleep, start: time.Now(), gap: float64(time.Second) / c.Rate,
		n: int64(c.Rate * c.Duration.Seconds()), due: make(chan time.Duration),
	}
	s.end = s.start.Add(c.Duration + c.Target.timeout)
	return s
}

// pace hands every request to a free connection when it is due, or when one gets
// free.
func (s *schedule) pace(ctx context.Context) {
	defer close(s.due)
	for i := range s.n {
		due := time.Duration(float64(i) * s.gap)
		for ahead := due - time.Since(s.start); ahead > 0 && ctx.Err() == nil; ahead = due - time.Since(s.start) {
			s.sleep(ahead)
		}
		select {
		case s.due <- due:
		case <-ctx.Done():
			return
		}
	}
}

// follow sends requests until the schedule is done. It returns an error only
// for nonsense.
func (c *client) follow(ctx context.Context, s *schedule, conn int, o *Outcome) error {
	free := time.Now()
	for due := range s.due {
		sent := time.Now()
		if free.Sub(s.start) <= due { // else the connection was busy when it was due
			Record(o.Lag, sent.Sub(s.start)-due)
		}
		if ctx.Err() != nil || sent.After(s.end) {
			return nil
		}
		err := c.send(ctx)
		var status int
		if err == nil {
			status, err = c.receive()
		}
		free = time.Now()
		if s.judge != nil {
			s.judge(conn, sent.Sub(s.start), free.Sub(s.start), status)
		}
		switch {
		case errors.As(err, new(nonsense)):
			return fmt.Errorf("bench: target %s: %w", c.target.addr, err)
		case err != nil:
			o.failed(err)
		default:
			o.answered(status)
			Record(o.Latency, free.Sub(s.start)-due)
			Record(o.Service, free.Sub(sent))
			at := &o.Intervals[due/Step]
			at.Answers++
			if Denial(status) {
				at.Denied++
			}
		}
	}
	return nil
}

// Record notes a time; one beyond the histogram as its highest.
func Record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(int64(d), 1), h.HighestTrackableValue())) // in range
}
