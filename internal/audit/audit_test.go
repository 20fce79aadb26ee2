package audit

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// TestJournal keeps what says who did it, whatever the level of the log, and nothing else.
func TestJournal(t *testing.T) {
	t.Parallel()
	var j Journal
	var out bytes.Buffer
	log := slog.New(j.Handler(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))).With("node", "a").WithGroup("g")
	if l := j.Last(5); l.Changes == nil || len(l.Changes) != 0 || l.Total != 0 {
		t.Errorf("at first: %+v", l)
	}
	log.Info("ban set", "by", "192.0.2.1", "key", "192.0.2.7", "for", "1h")
	log.Info("cluster joined", "peer", "b")
	log.Debug("detail", "by", "192.0.2.1")
	log.Warn("a change was refused", "by", "192.0.2.9")
	log.Error("reload: nothing was changed", "cause", "SIGHUP", "error", errors.New(strings.Repeat("x", 5000)))
	l := j.Last(5)
	if l.Total != 2 || len(l.Changes) != 2 {
		t.Fatalf("%+v", l)
	}
	if c := l.Changes[1]; c.By != "192.0.2.1" || c.What != "ban set" || len(c.Details) != 2 || c.Details["for"] != "1h" || c.Time.IsZero() {
		t.Errorf("%+v", c)
	}
	if c := l.Changes[0]; c.By != "SIGHUP" || len(c.Details["error"]) != mostDetail {
		t.Errorf("%+v", c)
	}
	if got := out.String(); strings.Contains(got, "ban set") || !strings.Contains(got, "node=a") || strings.Count(got, "\n") != 2 {
		t.Errorf("logged %s", got)
	}
}

// TestJournalIsBounded: the latest are kept, the latest first.
func TestJournalIsBounded(t *testing.T) {
	t.Parallel()
	var j Journal
	log := slog.New(j.Handler(slog.DiscardHandler))
	const n = 2*most + 17
	for i := range n {
		log.Info("change", "by", fmt.Sprint(i))
		if l := j.Last(2); l.Changes[0].By != fmt.Sprint(i) || i > 0 && l.Changes[1].By != fmt.Sprint(i-1) {
			t.Fatalf("%d: %+v", i, l)
		}
	}
	if l := j.Last(n); l.Total != n || len(l.Changes) != most || l.Changes[most-1].By != fmt.Sprint(n-most) {
		t.Errorf("%d of %d, the oldest by %s", len(l.Changes), l.Total, l.Changes[most-1].By)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				log.Info("change", "by", "x")
				j.Last(3)
			}
		})
	}
	all.Wait()
	if l := j.Last(1); l.Total != n+800 {
		t.Errorf("%d in all", l.Total)
	}
}
