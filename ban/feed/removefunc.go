package feed

import "net/netip"

// RemoveFunc ends the bans of all prefixes for which gone returns true, and returns their
// number. gone is called without a lock; a ban that begins meanwhile may be left out.
func (f *Feed) RemoveFunc(gone func(netip.Prefix) bool) (n int) {
	for _, p := range f.bans.prefixes() {
		if gone(p) && f.Remove(p) {
			n++
		}
	}
	return n
}

// prefixes returns those of all bans that are held.
func (s *bans) prefixes() []netip.Prefix {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]netip.Prefix, len(s.ends))
	for i, b := range s.ends {
		all[i] = b.prefix
	}
	return all
}
