package liverules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// network is nodes that ask each other. A cut node is not reached, and reaches nobody.
type network struct {
	mu    sync.Mutex
	nodes map[string]*node
	cut   map[string]bool
	hangs string // a node that takes questions, and does not answer
}

// peer is a node of it as Peers.
type peer struct {
	*network
	name string
}

func (p peer) Node() string { return p.name }

func (p peer) others(cut bool) (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.nodes {
		if name != p.name && (p.cut[name] || p.cut[p.name]) == cut {
			names = append(names, name)
		}
	}
	return names
}

func (p peer) Peers() []string { return p.others(false) }
func (p peer) Away() []string  { return p.others(true) }

func (p peer) Ask(ctx context.Context, name string, q []byte) ([]byte, error) {
	p.mu.Lock()
	other, cut, hangs := p.nodes[name], p.cut[name] || p.cut[p.name], p.hangs == name
	p.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, errors.New("it did not answer")
	}
	if other == nil || cut {
		return nil, errors.New("cut off")
	}
	return other.Answer(p.name, q), nil
}

// add starts a node.
func (w *network) add(t *testing.T, name string, n *node) *node {
	n.Join(peer{w, name})
	w.mu.Lock()
	w.nodes[name] = n
	w.mu.Unlock()
	stopped := n.Start(t.Context())
	t.Cleanup(func() { <-stopped })
	return n
}

func (w *network) set(name string, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[name] = cut
}

func newNetwork() *network { return &network{nodes: map[string]*node{}, cut: map[string]bool{}} }

func accepting(t *testing.T, rates ...string) *node {
	n := newNode(t, rules(rates...))
	n.config.Accept = true
	return n
}

// answers are those to a change for all nodes.
func answers(t *testing.T, reply any, err error) (all []NodeAnswer) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return reply.(*Shown).Nodes
}

// A change for all nodes holds on those that accept it when who made it is answered. One that was
// away follows when it is back, and ends it when the others do.
func TestAllNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newNetwork()
		a, b, c := w.add(t, "a", accepting(t, "10/s")), w.add(t, "b", accepting(t, "10/s")), w.add(t, "c", accepting(t, "10/s"))
		deaf := w.add(t, "deaf", newNode(t, rules("10/s")))
		other := w.add(t, "other", accepting(t)) // without the rule
		w.set("c", true)
		reply, err := a.Change(ctx, "a", []byte(`{"rate":"5/s","for":"30m","all_nodes":true}`), "alice")
		got := answers(t, reply, err)
		want := []NodeAnswer{
			{"b", true, ""},
			{"c", false, "it is away"},
			{"deaf", false, "it does not accept changes of other nodes: set cluster.accept_rules there"},
			{"other", false, `no rule "a"; this node has `},
		}
		if !slices.Equal(got, want) {
			t.Errorf("answers %+v", got)
		}
		for n, holds := range map[*node]string{a: "enforce 5/s 5", b: "enforce 5/s 5", c: "enforce 10/s 10", deaf: "enforce 10/s 10", other: ""} {
			if n.holds() != holds {
				t.Errorf("%s, want %s", n.holds(), holds)
			}
		}
		if !strings.Contains(b.log.String(), `msg="live rule set" by="alice at node a" rule=a change="rate=5/s"`) {
			t.Errorf("the log of b: %s", b.log.String())
		}
		time.Sleep(5 * time.Minute)
		w.set("c", false)
		time.Sleep(askEvery + 2*lookEvery)
		if synctest.Wait(); c.holds() != "enforce 5/s 5" {
			t.Errorf("back: %s", c.holds())
		}
		// One that has got the rule by a reload has the change too.
		if err := other.Follow(rules("20/s"), other.apply); err != nil || other.holds() != "enforce 5/s 5" {
			t.Errorf("reloaded: %v %s", err, other.holds())
		}
		// One that does not answer is not waited for for long.
		w.mu.Lock()
		w.hangs = "c"
		w.mu.Unlock()
		start := time.Now()
		reply, err = b.Change(ctx, "a", []byte(`{"rate":"6/s","all_nodes":true}`), "bob")
		if got, took := answers(t, reply, err), time.Since(start); got[1] != (NodeAnswer{"c", false, "it did not answer"}) || took > 4*time.Second || a.holds() != "enforce 6/s 6" {
			t.Errorf("%+v after %v", got, took)
		}
		w.mu.Lock()
		w.hangs = ""
		w.mu.Unlock()
		reply, err = c.Change(ctx, "a", []byte(`{"rate":"5/s","all_nodes":true}`), "carol")
		answers(t, reply, err)
		// The last one counts, whoever made it; a change of one node alone stays that.
		if _, err := b.Change(ctx, "a", []byte(`{"rate":"7/s"}`), "bob"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * askEvery)
		if synctest.Wait(); a.holds() != "enforce 5/s 5" || b.holds() != "enforce 7/s 7" {
			t.Errorf("a %s, b %s", a.holds(), b.holds())
		}
		reply, err = c.Change(ctx, "a", []byte(`{"mode":"shadow","for":"1h","all_nodes":true}`), "carol")
		if answers(t, reply, err); a.holds() != "shadow 5/s 5" || b.holds() != "shadow 5/s 5" {
			t.Errorf("a %s, b %s", a.holds(), b.holds())
		}
		w.set("b", true)
		reply, err = a.Undo(ctx, "a", true, "alice")
		if answers(t, reply, err); a.holds() != "enforce 10/s 10" || b.holds() != "shadow 5/s 5" || c.holds() != "enforce 10/s 10" {
			t.Errorf("taken back: a %s, b %s, c %s", a.holds(), b.holds(), c.holds())
		}
		w.set("b", false)
		time.Sleep(askEvery + 2*lookEvery)
		if synctest.Wait(); b.holds() != "enforce 10/s 10" {
			t.Errorf("b: %s", b.holds())
		}
		if _, err := newNode(t, rules("10/s")).Change(ctx, "a", []byte(`{"mode":"shadow","all_nodes":true}`), "x"); status(err) != 422 {
			t.Errorf("alone: %v", err)
		}
	})
}

// Nodes that are cut off, restart and change rules at random agree when all are there again.
func TestNodesAgree(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			w := newNetwork()
			names := []string{"a", "b", "c", "d"}
			all, last := map[string]*node{}, map[string]shared{}
			for _, name := range names {
				all[name] = w.add(t, name, accepting(t, "10/s", "20/s"))
			}
			for range 60 {
				name := names[rng.IntN(len(names))]
				n, rule := all[name], string(rune('a'+rng.IntN(2)))
				switch rng.IntN(6) {
				case 0:
					w.set(name, rng.IntN(2) == 0)
				case 1:
					_, _ = n.Undo(t.Context(), rule, true, name)
				case 2: // a restart with a state file
					next := accepting(t, "10/s", "20/s")
					next.RestoreShared(n.SaveShared(), 0)
					if _, err := next.Restore(n.Save(), 0); err != nil {
						t.Fatal(err)
					}
					all[name] = w.add(t, name, next)
				case 3:
					time.Sleep(time.Duration(rng.IntN(int(time.Minute))))
				default:
					body := fmt.Sprintf(`{"burst":%d,"for":"%dm","all_nodes":true}`, 1+rng.IntN(1000), 1+rng.IntN(20))
					if _, err := n.Change(t.Context(), rule, []byte(body), name); err != nil {
						t.Fatal(err)
					}
				}
				if c := n.heard(rule); c.version.compare(last[rule].version) > 0 {
					last[rule] = c
				}
			}
			for _, name := range names {
				w.set(name, false)
			}
			time.Sleep(20 * askEvery)
			synctest.Wait()
			var want []string
			for i, file := range []string{"10/s", "20/s"} {
				burst := strings.TrimSuffix(file, "/s")
				if c := last[string(rune('a'+i))]; !c.undone && time.Until(c.until) > 0 {
					burst = fmt.Sprint(c.Burst)
				}
				want = append(want, "enforce "+file+" "+burst)
			}
			for _, name := range names {
				if got := all[name].holds(); got != strings.Join(want, "; ") {
					t.Errorf("seed %d: %s has %s, want %v", seed, name, got, want)
				}
			}
		})
	}
}

// heard is the last change for all nodes that a node has heard of.
func (n *node) heard(rule string) shared {
	n.Set.mu.Lock()
	defer n.Set.mu.Unlock()
	return n.shared[rule]
}

// What another node says may be anything.
func TestHostileNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := accepting(t, "10/s")
		now := time.Now().UnixMilli()
		good := record{Saved{Rule: "a", Mode: "shadow", Left: time.Hour}, version{now, "x"}, false}
		for name, change := range map[string]func(*record){
			"from the future": func(r *record) { r.Version.At += (2 * time.Hour).Milliseconds() },
			"no time left":    func(r *record) { r.Left = 0 },
			"less than none":  func(r *record) { r.Left = -1 << 62 },
			"no mode":         func(r *record) { r.Mode = "off" },
			"no rate":         func(r *record) { r.Rate = "x" },
			"nothing":         func(r *record) { r.Mode = "" },
			"a rate too high": func(r *record) { r.Burst = 1<<64 - 1 },
			"another rule":    func(r *record) { r.Rule = "x" },
		} {
			r := good
			change(&r)
			_ = n.merge([]record{r}, 0)
			if n.holds() != "enforce 10/s 10" {
				t.Errorf("%s: %s", name, n.holds())
			}
			n.shared = map[string]shared{}
		}
		for i := range 2 * mostShared {
			r := good
			r.Rule = fmt.Sprint("x", i)
			_ = n.merge([]record{r}, 0)
		}
		if n.sharedCount() != mostShared {
			t.Errorf("%d rules are kept", n.sharedCount())
		}
		n.shared = map[string]shared{}
		r := good
		r.Left = 1 << 62
		if err := n.merge([]record{r}, 0); err != nil || n.holds() != "shadow 10/s 10" || n.Ends()["a"] > 366*24*time.Hour {
			t.Errorf("%v: %s for %v", err, n.holds(), n.Ends()["a"])
		}
		for _, q := range []string{"", "x", "[]", `{"ask":1}`, `{"ask":true}`} {
			var a answer
			if err := json.Unmarshal(n.Answer("x", []byte(q)), &a); err != nil || a.Problem == "" {
				t.Errorf("%q: %v %+v", q, err, a)
			}
		}
	})
}
