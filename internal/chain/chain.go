// Package chain links the versions of something that is replaced while it is in use, such as the table of a
// rule, so that users of an old version find the later ones.
//
// A chain keeps no version alive. In a → b → c, b may be collected while a is in use. So a points to a [Node]
// of b, a few words that outlive it, and the way from a to c goes through it. Each new version takes the
// nodes of collected ones out of the chain, so it is never longer than the live versions plus those since the
// last one.
package chain

import (
	"sync"
	"sync/atomic"
	"weak"
)

// Edge leads from one version to a later one.
type Edge[T, W any] struct {
	Way *W // what callers need to know about it
	to  *Node[T, W]
}

// Node is one version's place in its chain. It is safe for concurrent use.
type Node[T, W any] struct {
	self weak.Pointer[T]
	next atomic.Pointer[Edge[T, W]]
	join func(first, second *W) *W

	mu   *sync.Mutex // of the chain
	prev *Node[T, W] // guarded by mu
}

// New makes the node of a version without a predecessor. join gets the ways from a to b and from b to c,
// where b is gone, and returns the one from a to c.
func New[T, W any](self *T, join func(first, second *W) *W) *Node[T, W] {
	return &Node[T, W]{self: weak.Make(self), join: join, mu: new(sync.Mutex)}
}

// Follow puts n after old, replacing what followed it so far. Nobody else may use n yet.
func (n *Node[T, W]) Follow(old *Node[T, W], way *W) {
	old.mu.Lock()
	defer old.mu.Unlock()
	n.mu, n.prev = old.mu, old
	old.next.Store(&Edge[T, W]{way, n})
	for at := n; at.prev != nil; {
		if at.prev.self.Value() == nil {
			at.prev = at.prev.prev
			continue
		}
		at = at.prev
		at.Next()
	}
}

// End makes n the last of its chain.
func (n *Node[T, W]) End() { n.next.Store(nil) }

// Edge leads on from n, or is nil. It may lead to a version that is gone: ask Beyond.
func (n *Node[T, W]) Edge() *Edge[T, W] { return n.next.Load() }

// Next returns the next version that is alive, and the way to it; nil if there is none.
func (n *Node[T, W]) Next() (*T, *W) { return n.Beyond(n.next.Load()) }

// Beyond is Next as of when e, which may be nil, was n's edge.
func (n *Node[T, W]) Beyond(e *Edge[T, W]) (*T, *W) {
	for e != nil {
		if t := e.to.self.Value(); t != nil {
			return t, e.Way
		}
		var beyond *Edge[T, W]
		if after := e.to.next.Load(); after != nil { // its last one, as the version is gone
			beyond = &Edge[T, W]{n.join(e.Way, after.Way), after.to}
		}
		n.next.CompareAndSwap(e, beyond)
		e = beyond
	}
	return nil, nil
}
