// Package lists has the allow and deny lists that a configuration keeps in separate files, and follows these
// files.
//
//	file ─► Parse ─► prefixes ─┐
//	file ─► Parse ─► prefixes ─┼─► policy.Lists ─► apply
//	inline ────────────────────┘
//
// A file has one address or prefix per line, with comments after # or ; and blank lines. It is checked once a
// second. It is read when it has changed and then stayed the same from one check to the next, so that a file
// that is being written is not taken for a shorter list; and immediately when the operator asks for it
// ([Set.Reread]).
//
// Files are independent: one that cannot be read or has any mistake keeps its previous entries, and the
// others are still read. A set of lists is compiled as a whole and applied at once; requests see the old or
// the new one, never a mixture. Only the lists change: limits, buckets and live overrides stay.
package lists
