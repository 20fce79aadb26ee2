package engine

import (
	"cmp"
	"slices"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/judge"
	"github.com/fastlimit/fastlimit/limit"
)

// conforms reports whether one more request would be within the limit, as its client sees it: with all its
// requests, whatever happened to them.
func (p *play) conforms(a ask) bool {
	return p.conform(append(slices.Clone(p.requests), &modelRequest{ask: a, at: p.now()}))
}

func (p *play) conform(all []*modelRequest) bool {
	o := judge.Leaky(limit.Rate{N: 1, Per: time.Second})
	for _, r := range all {
		o.At(r.at)
		if o.Justified(r.cost, p.burst) {
			return false
		}
		o.Admit(r.cost)
	}
	return true
}

// noteReset clears the client's level at that node: the others may remember. What is in flight counts as
// before it for P2, and as after it for P1.
func (p *play) noteReset(node int) {
	p.resetBy, p.resetFrom, p.resetAt = node, len(p.requests), p.now()
	for _, r := range p.requests {
		r.forgiven = r.forgiven || !r.returned || r.hung && !r.refunded
	}
}

// counted are the requests that may explain a denial of request i: all so far, except those that its node was
// asked to forget, if nothing was lost since.
func (p *play) counted(i int) []*modelRequest {
	var all []*modelRequest
	for j, r := range p.requests {
		if p.resetBy == p.requests[i].node && i >= p.resetFrom && j < p.resetFrom && !r.forgiven && !p.lossy {
			continue
		}
		if r.refunded && i >= r.since && r.node == p.requests[i].node && !p.lossy && !p.passed {
			continue
		}
		all = append(all, r)
	}
	return all
}

// check looks at what was promised, after each event.
func (p *play) check() {
	for i, r := range p.requests {
		if !r.returned || r.checked {
			continue
		}
		r.checked = true
		switch {
		case r.hung && (r.verdict.Allowed || r.verdict.Degraded):
			p.fault("request %d hung up and got %+v", i, r.verdict)
		case !r.hung && !r.verdict.Allowed && !(r.verdict.Degraded && p.policy == limit.FailClosed) && p.conform(p.counted(i)):
			p.fault("P1: request %d: %+v", i, r.verdict)
		}
	}
	total := true // as long as the store judges alone
	for node := range p.nodes {
		total = total && !p.bounded(node)
	}
	if !p.lossy && !p.failed && total {
		p.bounded(everybody)
	}
}

// bounded checks that what a node, or everybody, has admitted keeps P2: the
// burst and what leaks while a request is on its way. It reports whether the
// failure policy has admitted some. A policy of open is held to nothing then.
func (p *play) bounded(node int) (fellBack bool) {
	admitted := slices.DeleteFunc(slices.Clone(p.requests), func(r *modelRequest) bool {
		return !r.returned || !r.verdict.Allowed || r.refunded || r.forgiven || node != everybody && r.node != node ||
			node == everybody && r.wiped
	})
	slices.SortStableFunc(admitted, func(a, b *modelRequest) int { return cmp.Compare(a.decided, b.decided) })
	o := judge.Leaky(limit.Rate{N: 1, Per: time.Second})
	bound := o.Units(float64(p.burst) + 4*limit.DefaultStoreTimeout.Seconds())
	for _, r := range p.requests {
		// What another node gives back after a reset that it did not hear of: in C.
		if node == everybody && r.wiped && r.hung && r.node != p.resetBy {
			bound += o.Units(float64(r.cost))
		}
	}
	for _, r := range admitted {
		if p.resetAt >= 0 && r.decided <= p.resetAt && slices.Index(p.requests, r) < p.resetFrom {
			continue
		}
		o.At(r.decided)
		level := o.Admit(r.cost)
		if fellBack = fellBack || r.verdict.Degraded; fellBack && p.policy == limit.FailOpen {
			return true
		}
		if level > bound && !p.forgot() {
			p.fault("P2: node %d admitted %v units", node, float64(level)/float64(o.Per))
		}
	}
	return fellBack
}

// forgot reports whether the store has: what it then grants to several waiting requests is part of C.
func (p *play) forgot() bool {
	return slices.ContainsFunc(p.done, func(e event) bool { return e.kind == lose })
}

// finish carries out what is left, and looks at what there must not be.
func (p *play) finish() {
	p.away = false
	p.left[fail] = 0
	for range 100 {
		es := slices.DeleteFunc(p.enabled(), func(e event) bool { return e.kind != deliver && e.kind != execute })
		if len(es) == 0 {
			break
		}
		p.do(es[0])
	}
	p.accounts()
	time.Sleep(2 * limit.DefaultStoreTimeout)
	synctest.Wait()
	p.collect()
	for i, r := range p.requests {
		if !r.returned {
			p.fault("request %d waits for ever", i)
		}
		r.cancel()
	}
	for n, r := range p.rules {
		if r.shared.InFlight() != 0 {
			p.fault("node %d: a flight was never finished", n)
		}
	}
}

// accounts compares the store with what was admitted, where only the µs of the
// events have leaked and nothing was lost: so nothing was given back twice.
func (p *play) accounts() {
	if p.passed || p.failed || p.lossy || p.resetAt >= 0 || p.wrong != "" {
		return
	}
	units := uint64(0)
	for _, r := range p.requests {
		if r.returned && r.verdict.Allowed && !r.refunded {
			units += r.cost
		}
	}
	want := units * p.rules[0].buckets.Shape.Unit()
	if got := p.state.Level; got > want || got+1000 < want {
		p.fault("the store holds %d ticks, want %d", got, want)
	}
}
