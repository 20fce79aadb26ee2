package gossip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// asked is who a joiner asks, and when, in a bubble: addresses that are up
// answer at once, and are members then; the others take streamTimeout.
type asked struct {
	members *members

	mu      sync.Mutex // guards all below
	up      map[netip.AddrPort]bool
	log     []netip.AddrPort
	pending int
	most    int // at a time
}

func (a *asked) join(at netip.AddrPort) error {
	a.mu.Lock()
	a.log = append(a.log, at)
	a.pending++
	a.most = max(a.most, a.pending)
	up := a.up[at]
	a.mu.Unlock()
	if !up {
		time.Sleep(streamTimeout)
	}
	a.mu.Lock()
	a.pending--
	a.mu.Unlock()
	if !up {
		return errors.New("i/o timeout")
	}
	return a.members.alive(announced("node-"+at.String(), at.String()))
}

// newJoiner has seeds, and peers that went one second after the other.
func newJoiner(t *testing.T, maxNodes int, seeds []string, lost ...*peer) (*joiner, *asked) {
	t.Helper()
	m, _ := testMembers(maxNodes)
	a := &asked{members: m, up: map[netip.AddrPort]bool{}}
	for _, p := range lost {
		if err := m.alive(&p.Node); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		m.NotifyLeave(&p.Node)
	}
	return &joiner{
		seeds: seeds, members: m, log: slog.New(slog.DiscardHandler), join: a.join, idle: func() bool { return false },
		resolve: func(_ context.Context, seed string) ([]netip.AddrPort, error) {
			if seed == "no-name-server:7946" {
				time.Sleep(lookupTimeout)
				return nil, errors.New("no name server")
			}
			return []netip.AddrPort{netip.MustParseAddrPort(seed)}, nil
		},
		found: map[string][]netip.AddrPort{},
	}, a
}

// formerPeers are peers that went.
func formerPeers(n int) (all []*peer) {
	for i := range n {
		at := fmt.Sprintf("198.51.100.%d:7946", i+1)
		all = append(all, &peer{Node: *announced(fmt.Sprintf("former-%d", i), at)})
	}
	return all
}

// A partition that is over is found to be over within maxJoinWait, after 33 peers
// died and others take their time, for a seed and for a peer that was met later.
func TestHealedPartitionIsFoundInTime(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		seeds []string
		up    string
	}{
		{"seed", []string{"192.0.2.1:7946", "192.0.2.2:7946", "no-name-server:7946"}, "192.0.2.2:7946"},
		{"peer that was lost last", []string{"192.0.2.1:7946"}, "198.51.100.33:7946"},
		{"peer, no seeds", nil, "198.51.100.20:7946"},
		{"64 seeds", manySeeds(64), "192.0.2.64:7946"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				j, a := newJoiner(t, 32, tt.seeds, formerPeers(33)...)
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { j.run(ctx) })
				time.Sleep(10 * time.Minute)
				for range 20 { // at any moment
					a.mu.Lock()
					a.up[netip.MustParseAddrPort(tt.up)] = true
					a.mu.Unlock()
					healed := time.Now()
					for len(j.members.list()) == 0 && time.Since(healed) < time.Minute {
						time.Sleep(10 * time.Millisecond)
					}
					if took := time.Since(healed); took > maxJoinWait {
						t.Errorf("it took %v", took)
					}
					n := announced("node-"+tt.up, tt.up)
					a.mu.Lock()
					clear(a.up)
					a.mu.Unlock()
					j.members.NotifyLeave(n)
					time.Sleep(3*time.Minute + 777*time.Millisecond)
				}
				stop()
				running.Wait()
				if a.most > maxJoins {
					t.Errorf("%d asked at a time", a.most)
				}
			})
		})
	}
}

func manySeeds(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("192.0.2.%d:7946", i+1))
	}
	return all
}

// Seeds come first, in their order, then the peers that were lost last.
func TestSeedsFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j, _ := newJoiner(t, 32, []string{"192.0.2.9:7946", "192.0.2.1:7946"}, formerPeers(3)...)
		seeds, _ := j.lookUp(t.Context())
		var got []string
		for _, at := range j.members.missing(seeds) {
			got = append(got, at.Addr().String())
		}
		if want := []string{"192.0.2.9", "192.0.2.1", "198.51.100.3", "198.51.100.2", "198.51.100.1"}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// Once one of many has answered, and with it listed the others, these are not
// asked any more.
func TestOneAnswerIsEnough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j, a := newJoiner(t, 200, nil, formerPeers(150)...)
		for i := range 150 {
			a.up[netip.MustParseAddrPort(fmt.Sprintf("198.51.100.%d:7946", i+1))] = true
		}
		one := sync.OnceFunc(func() {
			for _, p := range formerPeers(150) {
				j.members.NotifyJoin(&p.Node)
			}
		})
		j.join = func(at netip.AddrPort) error {
			err := a.join(at)
			one()
			return err
		}
		if joined, problems := j.attempt(t.Context()); !joined || len(problems) > 0 {
			t.Errorf("%v, %q", joined, problems)
		}
		if len(a.log) > maxJoins {
			t.Errorf("%d asked", len(a.log))
		}
	})
}

// Who left in due form is forgotten, in whatever order the messages about it arrive;
// but not for what a former life said.
func TestFarewell(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		incarnation uint64
		late, sent  bool
		want        int
	}{
		{"none", 7, false, false, 1},
		{"before", 7, false, true, 0},
		{"after", 7, true, true, 0},
		{"of another life, before", 6, false, true, 1},
		{"of another life, after", 6, true, true, 1},
	} {
		m, l := testMembers(32)
		n := announced("peer", "192.0.2.1:7946")
		if err := m.alive(n); err != nil {
			t.Fatal(err)
		}
		other := members{self: "peer", incarnation: tt.incarnation}
		word := other.appendFarewell(nil)
		if tt.sent && !tt.late {
			m.NotifyMsg(word)
		}
		m.NotifyLeave(n)
		if tt.sent && tt.late {
			m.NotifyMsg(word)
		}
		if got := m.missing(nil); len(got) != tt.want {
			t.Errorf("%s: %v are looked for, want %d", tt.name, got, tt.want)
		}
		if left := len(l.lines("peer has left")); (left == 1) != (tt.want == 0 && !tt.late) {
			t.Errorf("%s: %q", tt.name, l.lines(""))
		}
	}
	for _, b := range []string{"", "flbye", farewell, farewell + "1234567"} {
		if _, _, ok := readFarewell([]byte(b)); ok {
			t.Errorf("%q is a farewell", b)
		}
	}
}

// Who went without a word is looked for, a day long; of too many those that
// went last.
func TestLostPeersExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j, _ := newJoiner(t, 8, nil, formerPeers(20)...)
		got := j.members.missing(nil)
		if len(got) != 8 || got[0].Addr().String() != "198.51.100.20" || got[7].Addr().String() != "198.51.100.13" {
			t.Errorf("%v", got)
		}
		time.Sleep(lostFor - 5*time.Second)
		if got := j.members.missing(nil); len(got) != 6 {
			t.Errorf("%v a day later", got)
		}
		time.Sleep(time.Minute)
		if got := j.members.missing(nil); len(got) != 0 || len(j.members.lost) != 0 {
			t.Errorf("%v at last", got)
		}
	})
}

// A name server that is away takes no seed away that it has resolved.
func TestSeedsOutliveTheNameServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j, _ := newJoiner(t, 8, []string{"192.0.2.1:7946"})
		if seeds, _ := j.lookUp(t.Context()); len(seeds) != 1 {
			t.Fatalf("%v", seeds)
		}
		j.resolve = func(context.Context, string) ([]netip.AddrPort, error) { return nil, errors.New("no name server") }
		if seeds, problems := j.lookUp(t.Context()); len(seeds) != 1 || len(problems) != 1 {
			t.Errorf("%v, %q", seeds, problems)
		}
	})
}

// Real nodes: one that stops is not looked for, one that dies is.
func TestWhoLeftIsForgotten(t *testing.T) {
	t.Parallel()
	a := node(t, nil)
	b, c := joining(t, a), joining(t, a)
	together(t, a, b, c)
	b.Close()
	for _, n := range []*testNode{a, c} {
		eventually(t, "b to be gone", func() bool { return len(n.Peers()) == 1 })
		if got := n.members.missing(nil); len(got) != 0 {
			t.Errorf("%v is looked for", got)
		}
	}
}
