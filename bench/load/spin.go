package load

import (
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// SpinConfig is a load of one thread that never sleeps: it asks the kernel again
// and again which answers have come, so that a server is not kept waiting for a
// generator that has to wake up first. It takes a core for itself.
type SpinConfig struct {
	Addr    string // IPv4 address and port of the server
	Request []byte // head of a request without a body
	Conns   int    // each has one request in flight at most
	Sources int    // loopback addresses to connect from, in turn; 0 leaves it to the kernel
	// Reconnect takes a new connection for each request, which must ask the server
	// to close it, unless Leave has the client do that when it has its answer.
	Reconnect, Leave bool
	// Queue has a closed loop that reconnects go in batches: Halt stops the server until
	// all connections have sent their request and wait in its queue, and again when all
	// are answered. The server always finds the next one, however slow the generator is.
	Queue bool
	Halt  func(stop bool) error `json:"-"`
	// Rate is the requests per second of an open loop, in which latency counts from
	// the moment when a request was due. 0 is a closed loop: the next request goes
	// out when the answer has come.
	Rate   float64
	Warmup time.Duration // of the same load, not measured
	// Requests and Duration end the measurement, whichever comes first; 0 does not
	// end it. Without both the connections are opened, each gets one answer, and
	// that is all.
	Requests int64
	Duration time.Duration

	// Probe asks meanwhile, in an open loop over one connection that it keeps.
	Probe *SpinProbe

	// Begin is called before the first measured request, End after the last, Open
	// when all connections are open; each may be nil.
	Begin, End, Open func() `json:"-"`
}

// SpinProbe is what is asked beside the load, such as the address for operators.
type SpinProbe struct {
	Addr    string // IPv4 address and port; "" is the server under load
	Request []byte
	Rate    float64 // requests per second
}

// SpinOutcome is what a spinning load measured. All times are in ns.
type SpinOutcome struct {
	Status  map[int]int64 // answers by status
	Failed  int64         // requests without an answer
	Failure string        // the last reason
	Unsent  int64         // requests of an open loop that found no free connection in time
	Elapsed time.Duration
	// Ever is the answers of the whole run, opening and warm-up included.
	Ever int64
	// Polls of the kernel, and those that found nothing: time in which the generator
	// waited for the server.
	Polls, Empty int64
	// Latency is the time to an answer: from the moment when the request was due in
	// an open loop, sent in a closed one, the connection's opening included where
	// there is one for each request. Service is always from the moment of sending.
	Latency, Service *hdrhistogram.Snapshot
	Probe            *hdrhistogram.Snapshot // latency of the probe, nil without one
	ProbeDenied      int64
}

// leastEmpty is the share of polls that must find nothing. A generator that always
// finds answers waiting is the limit of what it measures.
const leastEmpty = 0.03

// EmptyShare is the share of polls that found nothing.
func (o *SpinOutcome) EmptyShare() float64 { return float64(o.Empty) / float64(max(1, o.Polls)) }

// Void reports whether the generator was the limit, and the figures are its own.
func (o *SpinOutcome) Void() bool { return o.EmptyShare() < leastEmpty }

// Total is the number of answers.
func (o *SpinOutcome) Total() (n int64) {
	for _, k := range o.Status {
		n += k
	}
	return n
}

// Denied is the number of answers with a status that limiters deny with.
func (o *SpinOutcome) Denied() (n int64) {
	for status, k := range o.Status {
		if Denial(status) {
			n += k
		}
	}
	return n
}

// Class is the number of answers from 100·c to 100·c + 99.
func (o *SpinOutcome) Class(c int) (n int64) {
	for status, k := range o.Status {
		if status/100 == c {
			n += k
		}
	}
	return n
}

// validate reports what is wrong with the configuration.
func (c *SpinConfig) validate() error {
	if c.Queue && (c.Halt == nil || !c.Reconnect || c.Rate > 0) {
		return errors.New("bench: a queue of new connections: want a server to halt, one connection for each request, and a closed loop")
	}
	if c.Conns < 1 || c.Sources < 0 || c.Rate < 0 || c.Requests < 0 || c.Duration < 0 || c.Warmup < 0 || len(c.Request) == 0 {
		return fmt.Errorf("bench: %d connections from %d addresses, rate %v, %d requests in %v: want 1 connection, a request, and nothing below 0",
			c.Conns, c.Sources, c.Rate, c.Requests, c.Duration)
	}
	return nil
}
