package liverules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/policy"
)

// node has rules hold as a node does, as a limiter plans them.
type node struct {
	t    *testing.T
	mu   sync.Mutex
	rule []policy.RuleSpec // guarded by mu
	fail error             // likewise
	log  testkit.Log
	*Set
}

func rules(all ...string) (specs []policy.RuleSpec) {
	for i, rate := range all {
		r, _ := fastlimit.ParseRate(rate)
		specs = append(specs, policy.RuleSpec{Limit: fastlimit.RuleConfig{Name: string(rune('a' + i)), Rate: r}})
	}
	return specs
}

func newNode(t *testing.T, file []policy.RuleSpec) *node {
	n := &node{t: t, rule: file}
	n.Set = New(Config{Changing: new(sync.Mutex), Log: slog.New(slog.NewTextHandler(&n.log, nil)), Apply: n.apply}, file)
	return n
}

// fails has changes fail from now on; nil: not any more.
func (n *node) fails(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fail = err
}

func (n *node) apply(all []policy.RuleSpec) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fail != nil {
		return n.fail
	}
	s := policy.Settings{Rules: all}
	if _, err := fastlimit.NewPlan(fastlimit.Config{Rules: s.Limits()}); err != nil {
		return err
	}
	n.rule = all
	return nil
}

// holds is what requests are decided by.
func (n *node) holds() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var words []string
	for i := range n.rule {
		l := limitOf(&n.rule[i].Limit)
		words = append(words, fmt.Sprint(l.Mode, " ", l.Rate, " ", l.Burst))
	}
	return strings.Join(words, "; ")
}

// status is what a call is answered with.
func status(err error) int {
	if s, ok := err.(interface{ HTTPStatus() int }); ok {
		return s.HTTPStatus()
	}
	if err != nil {
		return 500
	}
	return 200
}

func (n *node) change(rule, body string, want int, holds string) string {
	n.t.Helper()
	reply, err := n.Change(n.t.Context(), rule, []byte(body), "alice")
	if status(err) != want || n.holds() != holds {
		n.t.Errorf("%s %s: %d %v, and %s; want %d, and %s", rule, body, status(err), err, n.holds(), want, holds)
	}
	if err != nil {
		return err.Error()
	}
	b, _ := json.Marshal(reply)
	return string(b)
}

// A change lasts as long as it says, on top of earlier ones of the same rule, and ends automatically.
func TestEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rules("10/s", "20/s"))
		ctx, cancel := context.WithCancel(t.Context())
		stopped := n.Start(ctx)
		const file = "enforce 10/s 10; enforce 20/s 20"
		if got := n.change("b", `{"rate":"5/s","burst":50,"for":"30m"}`, 200, "enforce 10/s 10; enforce 5/s 50"); got !=
			`{"rule":"b","mode":"enforce","rate":"5/s","burst":50,"file":{"mode":"enforce","rate":"20/s","burst":20},"seconds_left":1800,"by":"alice"}` {
			t.Error(got)
		}
		time.Sleep(20 * time.Minute)
		n.change("b", `{"mode":"shadow","for":"20m"}`, 200, "enforce 10/s 10; shadow 5/s 50")
		n.change("a", `{"mode":"shadow"}`, 200, "shadow 10/s 10; shadow 5/s 50")
		if left := n.Ends(); left["a"] != time.Hour || left["b"] != 20*time.Minute {
			t.Errorf("ends: %v", left)
		}
		time.Sleep(20*time.Minute - time.Second)
		if synctest.Wait(); n.holds() != "shadow 10/s 10; shadow 5/s 50" {
			t.Errorf("before the end: %s", n.holds())
		}
		time.Sleep(time.Second)
		if synctest.Wait(); n.holds() != "shadow 10/s 10; enforce 20/s 20" {
			t.Errorf("after the end: %s", n.holds())
		}
		n.fails(errors.New("no memory"))
		time.Sleep(40*time.Minute + time.Second)
		if synctest.Wait(); n.holds() != "shadow 10/s 10; enforce 20/s 20" {
			t.Errorf("while it cannot: %s", n.holds())
		}
		n.fails(nil)
		time.Sleep(retry)
		if synctest.Wait(); n.holds() != file || n.Ends()["a"] != 0 {
			t.Errorf("when it can again: %s, %v", n.holds(), n.Ends())
		}
		for _, line := range []string{
			`msg="live rule set" by=alice rule=b change="rate=5/s burst=50" for=30m0s`, `change="mode=shadow rate=5/s burst=50" for=20m0s`,
			`msg="live rule ended" cause="its time" rule=b was="mode=shadow rate=5/s burst=50"`, `level=ERROR msg="a rule cannot be restored`,
		} {
			if !strings.Contains(n.log.String(), line) {
				t.Errorf("%s is not in\n%s", line, n.log.String())
			}
		}
		cancel()
		<-stopped
	})
}

// What cannot be is refused, says why, and changes nothing.
func TestRefused(t *testing.T) {
	t.Parallel()
	specs := rules("10/s", "20/s")
	specs[1].Limit.Algorithm = fastlimit.FixedWindow
	n := newNode(t, specs)
	const holds = "enforce 10/s 10; enforce 20/s 20"
	for _, c := range []struct {
		rule, body string
		status     int
		says       string
	}{
		{"a", `{}`, 400, "nothing to change"},
		{"a", `{"for":"1h"}`, 400, "nothing to change"},
		{"a", `[]`, 400, "want an object"},
		{"a", `{"mode":1}`, 400, "mode: want enforce or shadow, not number"},
		{"a", `{"limit":"1/s"}`, 400, `unknown field "limit"`},
		{"a", `{"rate":"1/s","rate":"2/s"}`, 400, "twice"},
		{"a", `{"mode":"off"}`, 422, `mode: off is not a mode; want enforce or shadow`},
		{"a", `{"rate":"fast"}`, 422, "rate: "},
		{"a", `{"rate":"0/s"}`, 422, "rate: "},
		{"a", `{"burst":0}`, 422, "burst: 0 admits nobody"},
		{"a", `{"burst":-1}`, 400, "burst: want a whole number above 0"},
		{"a", `{"burst":18446744073709551615}`, 422, "burst: "},
		{"a", `{"rate":"5/s","for":"1d3"}`, 400, "for: "},
		{"a", `{"rate":"5/s","for":"0s"}`, 400, "for: 0s is out of range"},
		{"b", `{"burst":5}`, 422, "burst: "},
		{"c", `{"rate":"5/s"}`, 404, `no rule "c"; this node has a, b`},
	} {
		if got := n.change(c.rule, c.body, c.status, holds); !strings.Contains(got, c.says) {
			t.Errorf("%s %s: %s", c.rule, c.body, got)
		}
	}
	for rule, want := range map[string]int{"a": 404, "x": 404} {
		if _, err := n.Undo(t.Context(), rule, false, "alice"); status(err) != want {
			t.Errorf("undo %s: %v", rule, err)
		}
	}
	if n.log.String() != "" {
		t.Errorf("the log has changes: %s", n.log.String())
	}
}

// A reload keeps what is live for a rule that it still has, a restart keeps the rest of its time, and
// reverting it restores the rule in the current file.
func TestFollowAndRestore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, rules("10/s", "20/s"))
		n.change("a", `{"rate":"1/s","burst":9,"for":"1h"}`, 200, "enforce 1/s 9; enforce 20/s 20")
		n.change("b", `{"mode":"shadow","for":"2h"}`, 200, "enforce 1/s 9; shadow 20/s 20")
		time.Sleep(10 * time.Minute)
		kept := n.Save()

		n.fails(errors.New("no"))
		if err := n.Follow(rules("11/s"), n.apply); err == nil || n.Ends()["a"] == 0 || n.Ends()["b"] == 0 {
			t.Errorf("a reload that fails: %v, %v", err, n.Ends())
		}
		n.fails(nil)
		if err := n.Follow(rules("11/s"), n.apply); err != nil || n.holds() != "enforce 1/s 9" || len(n.Ends()) != 1 || n.Ends()["a"] == 0 {
			t.Errorf("%v: %s, %v", err, n.holds(), n.Ends())
		}
		if _, err := n.Undo(t.Context(), "a", false, "bob"); err != nil || n.holds() != "enforce 11/s 11" || len(n.Save()) != 0 {
			t.Errorf("undone: %v, %s", err, n.holds())
		}

		next := newNode(t, rules("10/s", "30/s"))
		next.change("b", `{"rate":"3/s"}`, 200, "enforce 10/s 10; enforce 3/s 3")
		kept = append(kept, Saved{Rule: "gone", Mode: "shadow", Left: 2 * time.Hour}, Saved{Rule: "a", Rate: "odd", Left: 2 * time.Hour})
		if n, err := next.Restore(kept, 20*time.Minute); n != 1 || err != nil || next.holds() != "enforce 1/s 9; enforce 3/s 3" {
			t.Errorf("%d %v: %s", n, err, next.holds())
		}
		if left := next.Left("a"); left != 30*time.Minute {
			t.Errorf("a ends in %v", left)
		}
		late := newNode(t, rules("10/s", "20/s"))
		if n, err := late.Restore(kept, 2*time.Hour); n != 0 || err != nil || late.holds() != "enforce 10/s 10; enforce 20/s 20" {
			t.Errorf("too late: %d %v: %s", n, err, late.holds())
		}
		b, _ := json.Marshal(next.List())
		if !strings.HasPrefix(string(b), `{"rules":[{"rule":"a","mode":"enforce","rate":"1/s","burst":9,"file":{"mode":"enforce","rate":"10/s","burst":10},"seconds_left":1800,"by":"alice"},{"rule":"b",`) {
			t.Error(string(b))
		}
	})
}

// TestRestoreAgain: what the process before has changed or taken back, since the next one has read its
// file, holds in the next one when that reads it again. Its own changes stay.
func TestRestoreAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, next := newNode(t, rules("10/s", "20/s", "30/s")), newNode(t, rules("10/s", "20/s", "30/s"))
		const before = "enforce 1/s 1; enforce 2/s 2; enforce 3/s 3"
		n.change("a", `{"rate":"1/s","burst":1}`, 200, "enforce 1/s 1; enforce 20/s 20; enforce 30/s 30")
		n.change("b", `{"rate":"2/s","burst":2}`, 200, "enforce 1/s 1; enforce 2/s 2; enforce 30/s 30")
		n.change("c", `{"rate":"3/s","burst":3}`, 200, before)
		if _, err := next.Restore(n.Save(), 0); err != nil || next.holds() != before {
			t.Fatalf("%v: %s", err, next.holds())
		}
		n.change("a", `{"rate":"7/s","burst":7}`, 200, "enforce 7/s 7; enforce 2/s 2; enforce 3/s 3")
		if _, err := n.Undo(t.Context(), "b", false, "bob"); err != nil {
			t.Fatal(err)
		}
		next.change("c", `{"rate":"9/s","burst":9}`, 200, "enforce 1/s 1; enforce 2/s 2; enforce 9/s 9")
		if k, err := next.Restore(n.Save(), 0); k != 1 || err != nil || next.holds() != "enforce 7/s 7; enforce 20/s 20; enforce 9/s 9" {
			t.Errorf("%d, %v: %s", k, err, next.holds())
		}
		if _, err := n.Undo(t.Context(), "a", false, "bob"); err != nil {
			t.Fatal(err)
		}
		if _, err := next.Restore(nil, 0); err != nil || next.holds() != "enforce 10/s 10; enforce 20/s 20; enforce 9/s 9" {
			t.Errorf("%v: %s", err, next.holds())
		}
	})
}
