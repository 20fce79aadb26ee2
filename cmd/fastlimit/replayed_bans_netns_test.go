//go:build linux && netns

package main

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/bans"
	"github.com/fastlimit/fastlimit/internal/testkit/netns"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// What somebody has recorded between two nodes, and sends again and again, does not bring back
// a ban that was taken back: neither at the node that has heard of it, nor once that has
// restarted, nor once its origin has.
func TestNetnsReplayedBans(t *testing.T) {
	t.Parallel()
	netns.Run(t, func() { replayBans(t) })
}

func replayBans(t *testing.T) {
	s := newScheduled(t, 1, 2, time.Hour)
	origin, peer := s.nodes[0], s.nodes[1]
	tape := peer.Record(t, 7946)
	bans := func(n *scheduledNode, client string) bool {
		return slices.ContainsFunc(s.bans(n), func(b bans.Shown) bool { return b.Key == client })
	}
	const client = "10.128.12.1"
	for _, n := range s.nodes {
		n.waitPeers(t, 1)
	}
	s.flood(origin, client)
	redistest.Eventually(t, "the ban", func() bool { return bans(peer, client) })
	s.unban(client)
	redistest.Eventually(t, "its end", func() bool { return !bans(peer, client) })
	packets, stop := tape.Replay()
	defer stop()
	if packets < 3 {
		t.Fatalf("%d packets were recorded", packets)
	}
	heard := func(what, another string) {
		t.Helper()
		s.flood(origin, another)
		redistest.Eventually(t, "a ban "+what, func() bool { return bans(peer, another) })
		if bans(peer, client) {
			t.Errorf("%s: banned again", what)
		}
	}
	heard("where it was heard of", "10.128.12.2")
	s.restart(peer, syscall.SIGTERM, true)
	heard("once that node has restarted", "10.128.12.3")
	s.restart(origin, syscall.SIGTERM, true)
	heard("once its origin has", "10.128.12.4")
}
