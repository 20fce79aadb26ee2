package gossip

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	minJoinWait = time.Second
	// maxJoinWait is the maximum time between the starts of two attempts, provided
	// that an attempt takes less. It therefore bounds how long a healed partition
	// goes unnoticed.
	maxJoinWait = 10 * time.Second
	// lookupTimeout bounds the wait for a name server.
	lookupTimeout = 2 * time.Second
	// maxJoins is how many addresses are asked at a time. One that does not answer
	// takes streamTimeout, so maxSeeds of them take 6 s, less than maxJoinWait.
	maxJoins = 32
	// lostFor is how long a peer that went without a farewell is retried. After
	// that only Config.Join leads back to it.
	lostFor = 24 * time.Hour
)

// joiner keeps asking seeds and lost peers that are not members.
type joiner struct {
	seeds   []string
	self    []netip.AddrPort
	members *members
	log     *slog.Logger
	resolve func(ctx context.Context, seed string) ([]netip.AddrPort, error)
	join    func(at netip.AddrPort) error
	idle    func() bool // skips attempts while this node is silent

	found map[string][]netip.AddrPort // last known addresses by seed; used by run only
}

// run makes attempts until ctx ends.
func (j *joiner) run(ctx context.Context) {
	failed := 0
	for waits := joinWaits(minJoinWait); ; {
		start := time.Now()
		joined, problems := j.attempt(ctx)
		if ctx.Err() != nil {
			return
		}
		failed = j.logAlone(failed, problems)
		switch {
		case len(problems) == 0: // all have joined; names may resolve to more nodes later
			waits = joinWaits(maxJoinWait)
		case joined:
			waits = joinWaits(minJoinWait)
		}
		select {
		case <-ctx.Done():
			return
		case <-j.members.nudge:
			waits = joinWaits(minJoinWait)
		case <-time.After(waits.NextBackOff() - time.Since(start)):
		}
	}
}

// joinWaits returns the times from one attempt to the next: at most first, then doubled up
// to maxJoinWait. Half of each is random, so that nodes that lost each other do not retry
// in step.
func joinWaits(first time.Duration) *backoff.ExponentialBackOff {
	const middle, spread = 3. / 4, 1. / 3 // 3/4 ± 1/4
	scaled := func(d time.Duration) time.Duration { return time.Duration(middle * float64(d)) }
	return &backoff.ExponentialBackOff{
		InitialInterval: scaled(first), MaxInterval: scaled(maxJoinWait) - 1, Multiplier: 2, RandomizationFactor: spread,
	}
}

// logAlone logs once that this node is alone, and once that it no longer is.
// failed is the number of consecutive attempts that left it alone. The first is not
// logged, since nodes that start together miss each other at first.
func (j *joiner) logAlone(failed int, problems []string) int {
	peers := j.members.list()
	alone := len(problems) > 0 && len(peers) == 0
	switch {
	case alone && failed == 1:
		j.log.Warn("cluster: no other node could be joined; this one goes on alone and keeps trying",
			slog.String("errors", strings.Join(problems[:min(len(problems), 10)], "; ")))
	case !alone && failed > 1:
		j.log.Info("cluster: joined", slog.Int("peers", len(peers)))
	}
	if alone {
		return failed + 1
	}
	return 0
}

// attempt asks all addresses that are missing. It returns whether one of them
// answered, and the problems with the others.
func (j *joiner) attempt(ctx context.Context) (joined bool, problems []string) {
	if j.idle() {
		return false, nil
	}
	seeds, problems := j.lookUp(ctx)
	var (
		mu    sync.Mutex // guards the results
		slots = make(chan struct{}, maxJoins)
		all   sync.WaitGroup
	)
	for _, at := range j.members.missing(seeds, j.self...) {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-slots }()
			if !j.members.noPeerAt(at) { // a node that answered meanwhile has listed it
				return
			}
			err := j.join(at)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				problems = append(problems, at.String()+": "+explain(err))
				return
			}
			joined = true
			j.members.markReached(at)
		})
	}
	all.Wait()
	return joined, problems
}

// lookUp resolves all seeds concurrently. If a name server does not answer, the
// addresses found before are used.
func (j *joiner) lookUp(ctx context.Context) (seeds []netip.AddrPort, problems []string) {
	results, errs := make([][]netip.AddrPort, len(j.seeds)), make([]error, len(j.seeds))
	var all sync.WaitGroup
	for i, seed := range j.seeds {
		all.Go(func() { results[i], errs[i] = j.resolve(ctx, seed) })
	}
	all.Wait()
	for i, seed := range j.seeds {
		if errs[i] != nil {
			problems = append(problems, seed+": "+errs[i].Error())
		} else {
			j.found[seed] = results[i]
		}
		seeds = append(seeds, j.found[seed]...)
	}
	j.members.setSeeds(seeds)
	return seeds, problems
}

// resolve returns the addresses of host:port. A name may have several: one per
// node, as with a headless service.
func resolve(ctx context.Context, seed string) ([]netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(seed)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
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

// setSeeds replaces the addresses that are admitted beyond max_nodes.
func (m *members) setSeeds(all []netip.AddrPort) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.seeds)
	for _, at := range all {
		m.seeds[at] = true
	}
}

// missing returns the addresses to ask: seeds that are not members, in their order,
// then lost peers, the most recently lost first, since after a partition those are
// most likely to answer.
func (m *members) missing(seeds []netip.AddrPort, self ...netip.AddrPort) (all []netip.AddrPort) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := map[netip.AddrPort]bool{}
	for _, a := range self {
		known[a] = true
	}
	for _, p := range m.peers {
		if at, ok := addressOf(&p.Node); ok {
			known[at] = true
		}
	}
	add := func(at netip.AddrPort) {
		if !known[at] {
			known[at] = true
			all = append(all, at)
		}
	}
	for _, at := range seeds {
		if !m.reach[at] {
			add(at)
		}
	}
	now := time.Now()
	maps.DeleteFunc(m.lost, func(_ string, l lostPeer) bool { return now.Sub(l.since) > lostFor })
	for _, l := range slices.SortedFunc(maps.Values(m.lost), func(a, b lostPeer) int {
		return cmp.Or(b.since.Compare(a.since), a.at.Compare(b.at))
	}) {
		add(l.at)
	}
	return all
}

// noPeerAt reports whether no peer is at an address.
func (m *members) noPeerAt(at netip.AddrPort) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.peers {
		if a, ok := addressOf(&p.Node); ok && a == at {
			return false
		}
	}
	return true
}

// markReached records that an address led to the cluster. If no member advertises
// it, as with a load balancer, it would be asked forever otherwise.
func (m *members) markReached(at netip.AddrPort) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reach[at] = true
}

// explain turns the error of a join into a hint. memberlist wraps the cause in text
// (v0.7.0), so errors.Is finds few of them.
func explain(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	switch {
	case strings.Contains(text, errReply[reasonKey].Error()):
		return "it has another secret, or is no node"
	case strings.Contains(text, syscall.ECONNREFUSED.Error()):
		return "nothing listens there"
	case strings.Contains(text, "i/o timeout"):
		return "no answer: is TCP to it allowed?"
	case errors.Is(err, io.EOF), strings.HasSuffix(text, ": EOF"), strings.Contains(text, syscall.ECONNRESET.Error()):
		return "it hung up: compare cluster.name and the secret"
	}
	return text
}
