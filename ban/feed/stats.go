package feed

import "sync/atomic"

// Refusal is why a ban was not accepted.
type Refusal uint8

// The reasons.
const (
	RefusedFull    Refusal = iota // Max bans are in force
	RefusedWide                   // wider than WidestV4 or WidestV6
	RefusedLengths                // MaxLengths other prefix lengths are in use
	RefusedInvalid                // not a prefix, or no time left
	numRefusals
)

// String returns the reason's name in metrics.
func (r Refusal) String() string {
	return [numRefusals]string{"full", "wide", "lengths", "invalid"}[r]
}

// Stats is a snapshot. Its counters only grow.
type Stats struct {
	Shadow  bool
	Up      bool // the latest call to the kernel has worked; false in shadow
	Held    int  // bans in force
	Max     int  // the limit of Held
	Pending int  // changes that have yet to be sent to the kernel

	Added   uint64            // bans accepted, including those that were extended
	Removed uint64            // bans that Remove has ended
	Refused map[string]uint64 // bans not accepted, by the name of the Refusal; every one has an entry

	Packets, Bytes uint64            // dropped by the kernel, as of the last second
	Errors         map[string]uint64 // of the writer, by the name of the Class; every one has an entry
	Refills        uint64            // times that the kernel had lost its table and got all bans again
}

// counters are the growing part of [Stats].
type counters struct {
	added, removed, refills atomic.Uint64
	refused                 [numRefusals]atomic.Uint64
	errors                  [numClasses]atomic.Uint64
	packets, bytes          atomic.Uint64
}

// Stats returns a snapshot.
func (f *Feed) Stats() Stats {
	c := &f.counters
	st := Stats{
		Shadow: f.config.Shadow, Up: f.up.Load(), Max: f.config.Max,
		Added: c.added.Load(), Removed: c.removed.Load(), Refills: c.refills.Load(),
		Packets: c.packets.Load(), Bytes: c.bytes.Load(),
		Refused: make(map[string]uint64, numRefusals), Errors: make(map[string]uint64, numClasses),
	}
	st.Held, st.Pending = f.bans.size(f.now())
	for r := range numRefusals {
		st.Refused[r.String()] = c.refused[r].Load()
	}
	for class := range numClasses {
		st.Errors[class.String()] = c.errors[class].Load()
	}
	return st
}
