package gossip

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/sync/delta"
)

// A reason is counted each time and logged once per interval, with the number
// of those in between.
func TestJournal(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	var l logs
	from := net.UDPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.7:1"))
	j := newJournal(slog.New(slog.NewTextHandler(&l, nil)), func() time.Time { return now })
	for range 600 {
		j.refuse(reasonOversized, nil)
		j.refuse(reasonMalformed, from)
		now = now.Add(time.Second / 4)
	}
	for _, reason := range []string{reasonOversized, reasonMalformed} {
		lines := l.lines("reason=" + reason)
		if j.totals()[reason] != 600 || len(lines) != 3 { // at 0, 60 and 120 s
			t.Fatalf("%s: %d, logged %d times", reason, j.totals()[reason], len(lines))
		}
		if strings.Contains(lines[0], "suppressed") || !strings.Contains(lines[1], "suppressed=239") {
			t.Errorf("%q", lines)
		}
	}
	if first := l.lines("from=192.0.2.7:1"); len(first) != 3 || !strings.Contains(first[0], "level=WARN") {
		t.Errorf("%q", first)
	}
}

// What happens at every join, or to a packet now and then, is logged when it does
// not pass.
func TestJournalGrace(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{delta.UnknownNode.String(), delta.StaleIncarnation.String(), reasonUDP} {
		now := time.Unix(0, 0)
		var l logs
		j := newJournal(slog.New(slog.NewTextHandler(&l, nil)), func() time.Time { return now })
		for range 3 { // far apart
			for range 10 {
				j.warn(reason)
				now = now.Add(100 * time.Millisecond)
			}
			now = now.Add(time.Hour)
		}
		if lines := l.lines(""); len(lines) > 0 {
			t.Errorf("%q", lines)
		}
		for range 15 {
			j.warn(reason)
			now = now.Add(time.Second)
		}
		if lines := l.lines("reason=" + reason); len(lines) != 1 {
			t.Errorf("%s: %q", reason, lines)
		}
	}
}

// Nothing is read from what memberlist logs, whatever a member has it say: it is
// for debugging, clipped and within a budget.
func TestJournalOfMemberlist(t *testing.T) {
	t.Parallel()
	lines := []string{
		"[DEBUG] memberlist: Stream connection from=192.0.2.7:1",
		"[ERR] memberlist: Conflicting address for b. Mine: 192.0.2.7:1",
		"[WARN] memberlist: ignoring alive message for 'b': " + errNodes.Error(),
		"[WARN] memberlist: handler queue full, dropping message (3) from=192.0.2.7:1",
		"[ERR] memberlist: Failed to decode ping request: EOF",
		"[ERR] memberlist: \x1b[31m" + strings.Repeat("x", 1000),
	}
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
		var l logs
		now := time.Unix(0, 0)
		j := newJournal(slog.New(slog.NewTextHandler(&l, &slog.HandlerOptions{Level: level})), func() time.Time { return now })
		for range 100 {
			for _, line := range lines {
				_, _ = j.Write([]byte(line))
			}
		}
		if n := len(j.totals()); n > 0 {
			t.Errorf("%v: %d reasons are counted", level, n)
		}
		want := 0
		if level == slog.LevelDebug {
			want = eventBurst
		}
		all := l.lines("")
		if len(all) != want || len(l.lines("level=DEBUG")) != want {
			t.Errorf("%v: %d lines, want %d for debugging", level, len(all), want)
		}
		for _, line := range all {
			if len(line) > 400 || strings.Contains(line, "\x1b") {
				t.Errorf("%q", line)
			}
		}
	}
}

func TestReasons(t *testing.T) {
	t.Parallel()
	all := reasons()
	if !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Errorf("%q", all)
	}
	for _, want := range []string{reasonKey, reasonCluster, reasonVersion, delta.Cap.String()} {
		if !slices.Contains(all, want) {
			t.Errorf("no %s in %q", want, all)
		}
	}
	for reason := range advice {
		switch reason {
		case reasonNetwork, reasonUDP:
		default:
			if !slices.Contains(all, reason) {
				t.Errorf("advice on %s, which is no reason", reason)
			}
		}
	}
}

// Peers come and go as often as a member likes to say so: that is logged within a
// budget, with the number of those in between.
func TestEventsAreBudgeted(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	var l logs
	j := newJournal(slog.New(slog.NewTextHandler(&l, nil)), func() time.Time { return now })
	for range 1000 {
		j.event(slog.LevelInfo, "cluster: peer is up", slog.String("peer", "ghost"))
	}
	if lines := l.lines("peer is up"); len(lines) != eventBurst {
		t.Errorf("%d lines", len(lines))
	}
	now = now.Add(time.Second)
	for range 10 {
		j.event(slog.LevelInfo, "cluster: peer is up", slog.String("peer", "later"))
	}
	if lines := l.lines("peer=later"); len(lines) != 1 || !strings.Contains(lines[0], "suppressed=936") {
		t.Errorf("%q", lines)
	}
}

// A node that is refused is counted and named, whatever its name is.
func TestNamesDoNotSilenceTheLog(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"[DEBUG]", "[DEBUG] memberlist: x", "Refuting", strings.Repeat("x", 100)} {
		m, l := testMembers(1)
		if err := m.alive(announced(name, "192.0.2.7:1")); !errors.Is(err, errNodes) {
			t.Fatalf("%s: %v", name, err)
		}
		if lines := l.lines("reason=nodes"); m.journal.totals()[reasonNodes] != 1 || len(lines) != 1 || !strings.Contains(lines[0], name) {
			t.Errorf("%s: %v, %q", name, m.journal.totals(), lines)
		}
	}
}
