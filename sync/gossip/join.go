package gossip

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	joinLeast = time.Second
	// joinMost bounds how long a healed partition goes unnoticed.
	joinMost = 10 * time.Second
	// lookup bounds the wait for a name server.
	lookup = 5 * time.Second
)

// join asks seeds and lost peers that are not members until ctx ends.
func (c *Cluster) join(ctx context.Context) {
	failed := 0
	for wait := joinLeast; ; {
		joined, problems := c.attempt(ctx)
		if ctx.Err() != nil {
			return
		}
		failed = c.tellAlone(failed, problems)
		switch {
		case len(problems) == 0: // all are there; names may come to stand for more
			wait = joinMost
		case joined:
			wait = joinLeast
		}
		select {
		case <-ctx.Done():
			return
		case <-c.members.nudge:
			wait = joinLeast
		case <-time.After(jitter(wait)):
			wait = min(2*wait, joinMost)
		}
	}
}

// tellAlone says once that this node is alone, and once that it is not any
// more. failed is the number of attempts in a row that left it so. The first
// is not told of: nodes that start together miss each other.
func (c *Cluster) tellAlone(failed int, problems []string) int {
	alone := len(problems) > 0 && len(c.members.list()) == 0
	switch {
	case alone && failed == 1:
		c.config.Logger.Warn("cluster: no other node could be joined; this one goes on alone and keeps trying",
			slog.String("errors", strings.Join(problems, "; ")))
	case !alone && failed > 1:
		c.config.Logger.Info("cluster: joined", slog.Any("peers", c.Peers()))
	}
	if alone {
		return failed + 1
	}
	return 0
}

// jitter keeps nodes that lost each other from asking in step.
func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d) //nolint:gosec // no secret
}

// attempt asks everyone who is missing, and tells whether one of them answered
// and what is wrong with the others.
func (c *Cluster) attempt(ctx context.Context) (joined bool, problems []string) {
	var targets []netip.AddrPort
	for _, seed := range c.config.Join {
		all, err := resolve(ctx, seed)
		if err != nil {
			problems = append(problems, seed+": "+err.Error())
		}
		targets = append(targets, all...)
	}
	for _, at := range c.members.missing(targets, c.Addr(), c.Advertised()) {
		if ctx.Err() != nil {
			return joined, problems
		}
		if _, err := c.list.Join([]string{at.String()}); err != nil {
			problems = append(problems, at.String()+": "+explain(err))
			continue
		}
		joined = true
		c.members.reached(at)
	}
	return joined, problems
}

// resolve finds the addresses of host:port. A name may stand for several nodes.
func resolve(ctx context.Context, seed string) ([]netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(seed)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookup)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var all []netip.AddrPort
	for _, ip := range ips {
		all = append(all, netip.AddrPortFrom(ip.Unmap(), uint16(n)))
	}
	return all, nil
}

// missing returns which of the seeds are no members, and the peers that went.
func (m *members) missing(seeds []netip.AddrPort, self ...netip.AddrPort) []netip.AddrPort {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := map[netip.AddrPort]bool{}
	for _, a := range self {
		known[a] = true
	}
	for _, n := range m.peers {
		if a, err := netip.ParseAddrPort(n.Address()); err == nil {
			known[a] = true
		}
	}
	var all []netip.AddrPort
	for _, a := range seeds {
		if !known[a] && !m.reach[a] {
			known[a] = true
			all = append(all, a)
		}
	}
	for _, a := range m.lost {
		if !known[a] {
			known[a] = true
			all = append(all, a)
		}
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	return all
}

// reached notes that an address led to the cluster. It may be one that no
// member advertises, and would be asked for ever.
func (m *members) reached(at netip.AddrPort) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reach[at] = true
}

// explain says what to do about a node that cannot be joined.
func explain(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	switch {
	case strings.Contains(text, "no installed keys"), strings.Contains(text, "could decrypt"):
		return "it has another secret"
	case strings.Contains(text, syscall.ECONNREFUSED.Error()):
		return "nothing listens there"
	case strings.Contains(text, "i/o timeout"):
		return "no answer: is TCP to it allowed?"
	case errors.Is(err, io.EOF), strings.HasSuffix(text, ": EOF"), strings.Contains(text, syscall.ECONNRESET.Error()):
		return "it hung up: compare cluster.name and the secret"
	}
	return text
}
