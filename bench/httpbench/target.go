package httpbench

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/fastlimit/fastlimit/bench/load"
	"github.com/fastlimit/fastlimit/bench/report"
)

// TargetOptions configure [RunTarget]: a limiter that runs already.
type TargetOptions struct {
	Options // of which Servers, Rule and Rounds have no meaning here

	URL    string
	Closed bool // a closed loop of Requests in place of an open one of Rate for Duration
}

func (o TargetOptions) open(t load.Target) load.OpenConfig {
	return load.OpenConfig{Target: t, Rate: o.Rate, Duration: o.Duration, Conns: o.Clients, Sources: o.sources()}
}

// sources are loopback addresses where the target is on 127.0.0.0/8; elsewhere
// they could not reach it.
func (o TargetOptions) sources() []net.IP {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil
	}
	if ip := net.ParseIP(u.Hostname()).To4(); ip != nil && ip.IsLoopback() {
		return load.Loopback(o.Clients)
	}
	return nil
}

// Check asks the target once: it must be there and answer sense. An error of
// the server counts as none.
func (o TargetOptions) Check(ctx context.Context) error {
	t, err := load.NewTarget(o.URL, 0)
	if err != nil {
		return err
	}
	if c := o.open(t); !o.Closed {
		if err := c.Validate(); err != nil {
			return err
		}
	}
	status, err := t.Probe(ctx)
	if err != nil {
		return err
	}
	if status >= 300 && status != 403 && status != 429 && status != 503 {
		return fmt.Errorf("bench: target %s answers %d: want 2xx for what it admits, and 429, 403 or 503 for the rest", t.Addr(), status)
	}
	return nil
}

// RunTarget measures the target. The result is valid beside an error, for what
// was done until then.
func RunTarget(ctx context.Context, o TargetOptions) ([]report.Result, error) {
	t, err := load.NewTarget(o.URL, 0)
	if err != nil {
		return nil, err
	}
	o.Progress.Tell(0, 1, "%s", o.URL)
	res := report.Result{Group: "http", Limiter: o.URL}
	if !o.Closed {
		res.Workload = fmt.Sprintf("open loop, %g/s", o.Rate)
		out, err := load.Open(ctx, o.open(t))
		if out == nil || out.Total() == 0 {
			return nil, err
		}
		return []report.Result{OpenResult(res, out)}, err
	}
	res.Workload = "closed loop"
	loop, err := load.DialClosed(ctx, t, o.Clients, o.sources())
	if err != nil {
		return nil, err
	}
	defer loop.Close()
	start := time.Now()
	counts, err := loop.Run(ctx, o.Requests)
	if counts.Total() == 0 {
		return nil, err
	}
	total := float64(counts.Total())
	res.Requests, res.Denied = counts.Total(), new(float64(counts.Denied())/total)
	res.PerSecond = new(total / time.Since(start).Seconds())
	return []report.Result{res}, err
}
