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
	joinLeast = time.Second
	// joinMost is the time from the start of one attempt to the start of the
	// next, at most, as long as an attempt takes less: so it bounds how long a
	// healed partition goes unnoticed.
	joinMost = 10 * time.Second
	// lookup bounds the wait for a name server.
	lookup = 2 * time.Second
	// joinAtOnce is how many are asked at a time. One that does not answer takes
	// streamTimeout; with 64 seeds, the most that a file may name, all are
	// asked in less than joinMost.
	joinAtOnce = 32
	// lostFor is how long a peer that went without a word is asked for. After
	// that only Config.Join leads to it.
	lostFor = 24 * time.Hour
)

// joiner asks seeds and lost peers that are not members.
type joiner struct {
	seeds   []string
	self    []netip.AddrPort
	members *members
	log     *slog.Logger
	resolve func(ctx context.Context, seed string) ([]netip.AddrPort, error)
	join    func(at netip.AddrPort) error
	idle    func() bool // nothing is to be asked for now

	found map[string][]netip.AddrPort // what seeds stood for last; run alone
}

// run asks until ctx ends.
func (j *joiner) run(ctx context.Context) {
	failed := 0
	for waits := joinWaits(joinLeast); ; {
		start := time.Now()
		joined, problems := j.attempt(ctx)
		if ctx.Err() != nil {
			return
		}
		failed = j.logAlone(failed, problems)
		switch {
		case len(problems) == 0: // all are there; names may come to stand for more
			waits = joinWaits(joinMost)
		case joined:
			waits = joinWaits(joinLeast)
		}
		select {
		case <-ctx.Done():
			return
		case <-j.members.nudge:
			waits = joinWaits(joinLeast)
		case <-time.After(waits.NextBackOff() - time.Since(start)):
		}
	}
}

// joinWaits are the times from one attempt to the next: at most first, doubled up
// to joinMost. Half of each is left to chance, so that nodes that lost each other
// do not ask in step.
func joinWaits(first time.Duration) *backoff.ExponentialBackOff {
	const middle, spread = 3. / 4, 1. / 3 // 3/4 ± 1/4
	scaled := func(d time.Duration) time.Duration { return time.Duration(middle * float64(d)) }
	return &backoff.ExponentialBackOff{
		InitialInterval: scaled(first), MaxInterval: scaled(joinMost) - 1, Multiplier: 2, RandomizationFactor: spread,
	}
}

// logAlone logs once that this node is alone, and once that it is not any more.
// failed is the number of attempts in a row that left it so. The first one is not
// logged: nodes that start together miss each other.
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

// attempt asks all nodes that are missing, and returns whether one of them answered
// and what is wrong with the others.
func (j *joiner) attempt(ctx context.Context) (joined bool, problems []string) {
	if j.idle() {
		return false, nil
	}
	seeds, problems := j.lookUp(ctx)
	var (
		mu    sync.Mutex // guards the results
		slots = make(chan struct{}, joinAtOnce)
		all   sync.WaitGroup
	)
	for _, at := range j.members.missing(seeds, j.self...) {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		if !j.members.misses(at) { // one that answered has listed it
			<-slots
			continue
		}
		all.Go(func() {
			defer func() { <-slots }()
			err := j.join(at)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				problems = append(problems, at.String()+": "+explain(err))
				return
			}
			joined = true
			j.members.reached(at)
		})
	}
	all.Wait()
	return joined, problems
}

// lookUp finds what the seeds stand for, all at a time. A name server that does
// not answer takes no seed away that was known before.
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
	j.members.seedsAre(seeds)
	return seeds, problems
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

// seedsAre notes what the seeds stand for.
func (m *members) seedsAre(all []netip.AddrPort) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.seeds)
	for _, at := range all {
		m.seeds[at] = true
	}
}

// missing returns whom to ask: the seeds that are no members, in their order,
// then the peers that went, the last one first. After a partition that is who
// is most likely to be there.
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

// misses reports whether no peer is at an address.
func (m *members) misses(at netip.AddrPort) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.peers {
		if a, ok := addressOf(&p.Node); ok && a == at {
			return false
		}
	}
	return true
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
