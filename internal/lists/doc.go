// Package lists has the allow and deny lists of a configuration that stand in files of
// their own, and follows these files.
//
//	file ─► Parse ─► prefixes ─┐
//	file ─► Parse ─► prefixes ─┼─► policy.Lists ─► apply
//	inline ────────────────────┘
//
// A file is one address or prefix on each line, with comments after # or ; and blank
// lines. It is looked at once a second. It is read when it has changed and has then stayed
// as it is from one look to the next, so that a file that is being written is not taken for
// a shorter list; and at once when the operator asks for it ([Set.Reread]).
//
// Each file counts by itself: one that cannot be read, or has a mistake anywhere, keeps the
// entries that it had, and the others are read all the same. A set of lists is compiled as
// a whole and applied at once; requests see the old or the new one, never a mixture. Nothing
// but the lists changes: limits, buckets and live overrides stay as they are.
package lists
