package selfaudit

import (
	"testing"

	"github.com/fastlimit/fastlimit/sketch"
)

// The rule of these tests has a burst of 10 units of 100 ticks, and suspects from 5 on.
const (
	unit  = 100
	most  = 10 * unit
	bound = 16 * unit
	full  = 2 * most
)

type trial struct {
	*testing.T
	table     *Table
	rule      *Rule
	evictions uint64
}

func newTrial(t *testing.T) *trial {
	t.Helper()
	tr := &trial{t, New(full), &Rule{5 * unit, most, bound, unit, new(Counts)}, 0}
	tr.table.Begin(tr.rule)
	tr.table.EveryDenial()
	return tr
}

var client = sketch.Digest{Pos: 7, ID: 7}

// visit runs a step of the client, whose bucket is busy until tat.
func (t *trial) visit(late, tat uint64, step func(v *Visit)) {
	t.Helper()
	v := t.table.Visit(t.rule, client, late, t.evictions)
	defer v.Leave()
	if v.Fresh() {
		v.Holds(tat)
	}
	step(&v)
}

// admit charges units without the exact bucket.
func (t *trial) admit(now, late, units uint64) {
	t.Helper()
	t.visit(late, 0, func(v *Visit) { v.Admitted(Times{now, late}, units*unit, t.evictions) })
}

func (t *trial) want(what string, denials, excess uint64) {
	t.Helper()
	if s := t.rule.Counts.Stats(); s.FalseDenials != denials || s.Excess != excess {
		t.Errorf("%s: %d false denials, %d in excess, want %d and %d", what, s.FalseDenials, s.Excess, denials, excess)
	}
}

func TestDenial(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	tr.admit(5000, 5000, 6)
	tr.table.Denied(tr.rule, client, 5000, 5*unit)
	tr.want("above what was admitted", 0, 0)
	tr.table.Denied(tr.rule, client, 5000, 4*unit)
	tr.want("within it", 1, 0)
	tr.table.Denied(tr.rule, sketch.Digest{ID: 8}, 5000, unit)
	tr.want("of a client that is not known", 1, 0)
	tr.table.Stop()
	tr.table.Denied(tr.rule, client, 5000, unit)
	tr.want("after the end", 1, 0)
}

// A new client has what its bucket holds, and a charge counts from the latest time on.
func TestDenialOfUnsure(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	tr.visit(5000, 5000+8*unit, func(v *Visit) { v.Denied(5000, 3*unit) })
	tr.want("of a client whose bucket was charged before", 0, 0)
	tr.admit(5000, 7000, 9)
	tr.table.Denied(tr.rule, client, 7000, 2*unit)
	tr.want("of a client that was charged late", 0, 0)
}

// While somebody else charges buckets nobody is judged, and then by what the bucket holds.
func TestDoubt(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	tr.admit(5000, 5000, 1)
	tr.table.Doubt(9000)
	tr.table.Denied(tr.rule, client, 5000, unit)
	tr.visit(8000, 0, func(v *Visit) { v.Denied(8000, unit) })
	for range 30 {
		tr.admit(8000, 8000, 1)
	}
	tr.table.Denied(tr.rule, client, 9500, unit)
	tr.want("in doubt", 0, 0)
	tr.visit(9500, 9500+9*unit, func(v *Visit) { v.Denied(9500, 2*unit) })
	tr.want("beside what others have charged", 0, 0)
	tr.visit(9500, 0, func(v *Visit) { v.Denied(9500, unit) })
	tr.want("judged again", 1, 0)
}

func TestExcess(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	for range 16 {
		tr.admit(5000, 5000, 1)
	}
	tr.want("at the bound", 0, 0)
	tr.admit(5000, 5000, 1)
	tr.want("above it", 0, 1)
	if s := tr.rule.Counts.Stats(); s.Peak != 17.0/16 {
		t.Errorf("peak %v", s.Peak)
	}
	tr.admit(5000+2*unit, 5000+2*unit, 1)
	tr.want("after two have leaked", 0, 1)
}

// What is not sure is not in excess.
func TestExcessOfUnsure(t *testing.T) {
	t.Parallel()
	for what, unsure := range map[string]func(tr *trial){
		"overtaken": func(tr *trial) { tr.admit(4999, 5000, 1) },
		"evicted":   func(tr *trial) { tr.evictions++; tr.admit(5000, 5000, 1) },
		"refunded": func(tr *trial) {
			tr.visit(5000, 0, func(v *Visit) { v.Refunded(5000, unit) })
			tr.admit(5000, 5000, 1)
		},
		"reset": func(tr *trial) {
			tr.visit(5000, 0, func(v *Visit) { v.Reset(5000, 0) })
			tr.admit(5000, 5000, 16)
		},
		"by another rule": func(tr *trial) {
			was := tr.rule
			tr.table.Begin(&Rule{5 * unit, most, bound, unit, was.Counts})
			tr.rule = tr.table.rule.Load()
			tr.admit(5000, 5000, 1)
			tr.rule = was
			tr.admit(5000, 5000, 16)
		},
		"removed while it waited": func(tr *trial) {
			tr.visit(5200, 0, func(v *Visit) { v.Charged(Times{5000, 5200}, unit, 5100, 0) })
			tr.admit(5200, 5200, 2)
		},
	} {
		tr := newTrial(t)
		tr.admit(5000, 5000, 16)
		unsure(tr)
		tr.want(what, 0, 0)
	}
}

// A client that finds no room is not audited until an entry has drained.
func TestRoom(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	for i := range uint64(ways) {
		v := tr.table.Visit(tr.rule, sketch.Digest{ID: 7 + sets*(i+1)}, 5000, 0)
		v.Holds(0)
		v.Admitted(Times{5000, 5000}, unit, 0)
		v.Leave()
	}
	for range 30 {
		tr.admit(5050, 5050, 1)
	}
	tr.table.Denied(tr.rule, client, 5050, unit)
	tr.want("without room", 0, 0)
	if n := tr.table.Live(5050); n != ways {
		t.Errorf("%d clients, want %d", n, ways)
	}
	tr.admit(5100, 5100, 17)
	tr.want("with room", 0, 1)
}

// A drained client keeps its entry while another place is free, and then the one that was away the longest
// loses its entry.
func TestRoomOfTheIdle(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	who := func(i uint64) sketch.Digest { return sketch.Digest{ID: 7 + sets*i} }
	visit := func(i, at uint64) {
		v := tr.table.Visit(tr.rule, who(i), at, 0)
		if v.Fresh() {
			v.Holds(0)
		}
		v.Admitted(Times{at, at}, unit, 0)
		v.Leave()
	}
	for i := range uint64(ways) {
		visit(i+1, 1e6*(i+1))
	}
	visit(1, 1e6*(ways+1))
	visit(ways+1, 1e6*(ways+2))
	for i := range uint64(ways + 1) {
		if kept := tr.table.set(who(1)).find(who(i+1)) != nil; kept != (i != 1) {
			t.Errorf("client %d: kept %v", i+1, kept)
		}
	}
}
