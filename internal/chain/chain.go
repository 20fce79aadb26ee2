// Package chain links the versions of something that is replaced while it is in use, such
// as the table of a rule: whoever still uses an old version finds those that came after it.
//
// A chain keeps no version alive. In a → b → c, b may be collected while a is in use. So a
// points to a [Node] of b, a few words that outlive it, and the way from a to c goes through
// that. Each new version takes the nodes of collected ones out of the chain, so however many
// there were, it is as long as the versions that are alive, and those since the last one.
package chain

import (
	"sync"
	"sync/atomic"
	"weak"
)

// Edge is the way from one version to a later one.
type Edge[T, W any] struct {
	Way *W // what is to be known on it
	to  *Node[T, W]
}

// Node is the place of one version in its chain. It is safe for concurrent use.
type Node[T, W any] struct {
	self weak.Pointer[T]
	next atomic.Pointer[Edge[T, W]]
	join func(first, second *W) *W

	mu   *sync.Mutex // of the chain
	prev *Node[T, W] // guarded by mu
}

// New makes the node of a version that follows no other. join is called with the ways from a to
// b and from b to c, where b is gone, and returns the one from a to c.
func New[T, W any](self *T, join func(first, second *W) *W) *Node[T, W] {
	return &Node[T, W]{self: weak.Make(self), join: join, mu: new(sync.Mutex)}
}

// Follow has n come after old, instead of what did so far. Nobody else may use n yet.
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

// End has nothing come after n.
func (n *Node[T, W]) End() { n.next.Store(nil) }

// Edge is what leads on from n, nil if nothing does. It may lead to a version that is gone:
// ask Beyond.
func (n *Node[T, W]) Edge() *Edge[T, W] { return n.next.Load() }

// Next returns the next version that is alive, and the way to it; nil if there is none.
func (n *Node[T, W]) Next() (*T, *W) { return n.Beyond(n.next.Load()) }

// Beyond is Next as of when e, which may be nil, led on from n.
func (n *Node[T, W]) Beyond(e *Edge[T, W]) (*T, *W) {
	for e != nil {
		if t := e.to.self.Value(); t != nil {
			return t, e.Way
		}
		var beyond *Edge[T, W]
		if after := e.to.next.Load(); after != nil { // the last that it got, as it is gone
			beyond = &Edge[T, W]{n.join(e.Way, after.Way), after.to}
		}
		n.next.CompareAndSwap(e, beyond)
		e = beyond
	}
	return nil, nil
}
