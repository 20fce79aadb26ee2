package gossip

import (
	"log/slog"
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
	j := newJournal(slog.New(slog.NewTextHandler(&l, nil)), func() time.Time { return now })
	for range 600 {
		j.refuse(reasonOversized, nil)
		if _, err := j.Write([]byte("[ERR] memberlist: Failed to decode ping request: EOF from=192.0.2.7:1\n")); err != nil {
			t.Fatal(err)
		}
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

// What happens at every join is told when it does not pass.
func TestJournalGrace(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	var l logs
	j := newJournal(slog.New(slog.NewTextHandler(&l, nil)), func() time.Time { return now })
	reason := delta.UnknownNode.String()
	for range 3 { // joins, far apart
		for range 10 {
			j.tell(reason)
			now = now.Add(100 * time.Millisecond)
		}
		now = now.Add(time.Hour)
	}
	if lines := l.lines(""); len(lines) > 0 {
		t.Errorf("%q", lines)
	}
	for range 15 {
		j.tell(reason)
		now = now.Add(time.Second)
	}
	if lines := l.lines("reason=" + reason); len(lines) != 1 {
		t.Errorf("%q", lines)
	}
}

// The log of memberlist is clipped, and what the failure detector says is not
// in it.
func TestJournalOfMemberlist(t *testing.T) {
	t.Parallel()
	var l logs
	j := newJournal(slog.New(slog.NewTextHandler(&l, nil)), time.Now)
	for _, line := range []string{
		"[DEBUG] memberlist: Stream connection from=192.0.2.7:1",
		"[INFO] memberlist: Suspect b has failed, no acks received",
		"[WARN] memberlist: Refuting a suspect message (from: b)",
	} {
		_, _ = j.Write([]byte(line))
	}
	if lines := l.lines(""); len(lines) > 0 {
		t.Errorf("%q", lines)
	}
	_, _ = j.Write([]byte("[ERR] memberlist: \x1b[31m" + strings.Repeat("x", 1000)))
	lines := l.lines("")
	if len(lines) != 1 || len(lines[0]) > 400 || strings.Contains(lines[0], "\x1b") {
		t.Errorf("%q", lines)
	}
}

func TestReasons(t *testing.T) {
	t.Parallel()
	all := Reasons()
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
		case reasonNetwork, reasonNodes, reasonOther:
		default:
			if !slices.Contains(all, reason) {
				t.Errorf("advice on %s, which is no reason", reason)
			}
		}
	}
}

// Peers come and go as often as a member likes to say so: that is told within a
// budget, with the number of those in between.
func TestEventsAreBudgeted(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	var l logs
	j := newJournal(slog.New(slog.NewTextHandler(&l, nil)), func() time.Time { return now })
	for range 1000 {
		j.event(slog.LevelInfo, "cluster: peer is up", slog.String("peer", "ghost"))
	}
	if lines := l.lines("peer is up"); len(lines) != eventsAtOnce {
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

// The name of a node that is refused is in the line: it is not taken for the
// line's level or for another reason to be quiet.
func TestNamesDoNotSilenceTheLog(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"[DEBUG]", "[DEBUG] memberlist: x", "Refuting"} {
		line := "2026/11/22 05:00:00 [WARN] memberlist: ignoring alive message for '" + name + "': " + errNodes.Error()
		if got := classify(line); got != reasonNodes {
			t.Errorf("%s: %q", line, got)
		}
	}
	if got := classify("2026/11/22 05:00:00 [DEBUG] memberlist: Stream connection from=192.0.2.7:1"); got != quiet {
		t.Errorf("%q", got)
	}
}
