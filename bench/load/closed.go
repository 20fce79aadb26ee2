package load

import (
	"context"
	"fmt"
	"net"
)

// Closed is a closed loop: each connection sends its next request when it has
// its answer, so that the load is what the server can do. It tells throughput
// and cost. For latencies take [Open]: a closed loop waits while the server
// does, and leaves out those who would have waited too. Not safe for
// concurrent use.
type Closed struct {
	target Target
	groups [2][]*client
}

// DialClosed opens n connections, 2 or more, from the source addresses in
// turn; none means any. Close it.
func DialClosed(ctx context.Context, t Target, n int, sources []net.IP) (*Closed, error) {
	if n < 2 {
		return nil, fmt.Errorf("bench: %d connections: a closed loop wants 2 or more, so that the server has one request while the answer to another is read", n)
	}
	l := &Closed{target: t}
	all, err := newClients(ctx, &l.target, n, sources)
	if err != nil {
		return nil, err
	}
	l.groups = [2][]*client{all[:n/2], all[n/2:]}
	return l, nil
}

// Close closes the connections.
func (l *Closed) Close() {
	closeAll(l.groups[0])
	closeAll(l.groups[1])
}

// Run sends n requests, rounded up to a multiple of the connections, from the
// calling goroutine. It sends for one half of the connections, then reads for
// the other: the answers are there by then, so that neither side sleeps. When
// ctx ends it reads what is on its way. A broken connection is an error here,
// since its server would be measured doing nothing; one that the server closes
// with an answer is replaced. The counts are valid beside an error.
func (l *Closed) Run(ctx context.Context, n int) (Counts, error) {
	var counts Counts
	all := len(l.groups[0]) + len(l.groups[1])
	if err := l.send(ctx, 0); err != nil {
		return counts, err
	}
	for left := n; left > 0; left -= all {
		last := left <= all || ctx.Err() != nil
		if err := l.send(ctx, 1); err != nil {
			return counts, err
		}
		if err := l.receive(0, &counts); err != nil {
			return counts, err
		}
		if !last {
			if err := l.send(ctx, 0); err != nil {
				return counts, err
			}
		}
		if err := l.receive(1, &counts); err != nil {
			return counts, err
		}
		if last {
			break
		}
	}
	return counts, ctx.Err()
}

func (l *Closed) send(ctx context.Context, group int) error {
	// What was sent must be read, so that the loop can go on after this run.
	ctx = context.WithoutCancel(ctx)
	for _, c := range l.groups[group] {
		if err := c.send(ctx); err != nil {
			return fmt.Errorf("bench: send to %s: %w", l.target.addr, err)
		}
	}
	return nil
}

func (l *Closed) receive(group int, counts *Counts) error {
	for _, c := range l.groups[group] {
		status, err := c.receive()
		if err != nil {
			return fmt.Errorf("bench: answer of %s: %w", l.target.addr, err)
		}
		counts.answered(status)
	}
	return nil
}
