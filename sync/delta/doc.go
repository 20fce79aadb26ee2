// Package delta is what nodes tell each other of their heavy hitters: the
// format, the merge, and what follows from it. It has no network, no clock and
// no goroutine: package gossip brings those.
package delta
