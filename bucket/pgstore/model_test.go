package pgstore

import (
	"context"
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/step"
	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
	"github.com/jackc/pgx/v5"
)

// A lab runs the function on chosen rows at chosen times and compares with the model.
type lab struct {
	t     testing.TB
	conn  *pgx.Conn
	sql   string
	steps trial.Steps // that were compared
}

func newLab(t testing.TB) *lab {
	t.Helper()
	var c Config
	server := started(t, &c)
	d, err := newDriver(c)
	if err != nil {
		t.Fatal(err)
	}
	sql := d.sql.operate
	_ = d.Close()
	return &lab{t: t, conn: server.Session(), sql: sql}
}

// scene has a state for each row; the zero value: no row.
type scene = trial.Scene[step.State]

const setRow = "INSERT INTO fastlimit.bucket VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0)"

const getRow = "SELECT algorithm, level, previous, last, unit, quiet, times, expires FROM fastlimit.bucket WHERE key = $1"

// run plays all scenes, each on keys of its own, in one round trip.
func (l *lab) run(scenes []scene) {
	l.t.Helper()
	ctx := context.Background()
	var pipe pgx.Batch
	pipe.Queue("TRUNCATE fastlimit.bucket")
	batches := make([]batch, len(scenes))
	for i := range scenes {
		sc := &scenes[i]
		for k, s := range sc.Stored {
			if s != (step.State{}) {
				pipe.Queue(setRow, []byte(sc.Key(i, k)), int16(s.Algorithm), signed(s.Level), signed(s.Previous), signed(s.Last), signed(s.Unit), signed(s.Quiet), times(s.Log))
			}
		}
		b := &batches[i]
		for _, op := range sc.SetKeys(i) {
			b.add(op)
		}
		b.arrange()
		pipe.Queue(l.sql, b.fill(&sc.Clock, time.Minute, signed(sc.Now))...)
		for k := range sc.Stored {
			pipe.Queue(getRow, []byte(sc.Key(i, k)))
		}
	}
	results := l.conn.SendBatch(ctx, &pipe)
	defer func() {
		if err := results.Close(); err != nil {
			l.t.Fatal(err)
		}
	}()
	l.exec(results)
	for i := range scenes {
		for _, s := range scenes[i].Stored {
			if s != (step.State{}) {
				l.exec(results)
			}
		}
		rows, err := results.Query()
		if err == nil {
			err = batches[i].read(rows)
		}
		if err != nil {
			l.t.Fatalf("%+v: %v", scenes[i], err)
		}
		l.compare(&scenes[i], &batches[i], results)
	}
}

func (l *lab) exec(results pgx.BatchResults) {
	l.t.Helper()
	if _, err := results.Exec(); err != nil {
		l.t.Fatal(err)
	}
}

func times(log step.Times) []int64 {
	if log.Len() == 0 {
		return nil
	}
	all := make([]int64, 0, log.Len())
	for _, t := range log.All() {
		all = append(all, signed(t))
	}
	return all
}

func (l *lab) compare(sc *scene, b *batch, results pgx.BatchResults) {
	l.t.Helper()
	want, expires := slices.Clone(sc.Stored), make([]uint64, len(sc.Stored))
	for i, o := range b.ops {
		on := sc.On[slices.IndexFunc(sc.Ops, func(op bucket.Op) bool { return op.Key == o.op.Key })]
		before := want[on]
		after, res := sc.Apply(before, o.op)
		l.steps[o.op.Shape.Algorithm()]++
		r := b.rows[i]
		got := step.Result{Granted: uint64(r.granted), Level: uint64(r.reply), Late: r.late, Write: res.Write, TTL: res.TTL}
		if got != res || uint64(r.now) != sc.Now {
			l.t.Fatalf("at %d: %+v\non %+v: %+v, want %+v", sc.Now, *o.op, before, r, res)
		}
		if res.Write {
			want[on], expires[on] = after, sc.Now+uint64(res.TTL)*1000
		}
	}
	for k := range want {
		l.compareStored(sc, k, want[k], expires[k], results)
	}
}

func (l *lab) compareStored(sc *scene, k int, want step.State, expires uint64, results pgx.BatchResults) {
	l.t.Helper()
	var algorithm int16
	var level, previous, last, unit, quiet, until int64
	var log []int64
	err := results.QueryRow().Scan(&algorithm, &level, &previous, &last, &unit, &quiet, &log, &until)
	if err != nil && (err != pgx.ErrNoRows || want != (step.State{})) { //nolint:errorlint // as is
		l.t.Fatalf("%+v: %v, want %+v", sc.Ops, err, want)
	}
	at := make([]uint64, len(log))
	for i, t := range log {
		at[i] = uint64(t)
	}
	got := step.State{
		Algorithm: bucket.Algorithm(algorithm), Level: uint64(level), Previous: uint64(previous), Last: uint64(last),
		Unit: uint64(unit), Quiet: uint64(quiet), Log: step.NewTimes(at...),
	}
	if got != want || uint64(until) != expires {
		l.t.Fatalf("%+v\nrow %d at %d was %+v\nis %+v until %d\nwant %+v until %d", sc.Ops, k, sc.Now, sc.Stored[k], got, until, want, expires)
	}
}

var rounds = flag.Int("rounds", 3, "rounds of TestSQLIsTheModel, of some 4000 steps each; 250 for 10^6 steps")

// Go and SQL agree bit for bit, on some 12,000 steps of all algorithms.
func TestSQLIsTheModel(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	trial.IsTheModel(t, *rounds, &l.steps, randomRow, l.run)
}

// Batches as large as they come.
func TestSQLManyKeys(t *testing.T) {
	t.Parallel()
	trial.ManyKeys(5, randomRow, newLab(t).run)
}

// randomRow is a state that a row can hold.
func randomRow(rng *rand.Rand, s bucket.Shape, now uint64) step.State {
	return sound(trial.RandomState(rng, s, now))
}

const safe = 1<<53 - 1 // the largest number in a row

// sound is a state that a row can hold: the zero value is one without a row.
func sound(st step.State) step.State {
	_, most := bucket.Unpack(math.MaxUint64)
	switch st.Algorithm {
	case bucket.SlidingLog:
		return step.State{Algorithm: st.Algorithm, Quiet: min(st.Quiet, safe), Log: st.Log}
	case bucket.SlidingWindow:
		st.Level, st.Previous = min(st.Level, most), min(st.Previous, most)
	default:
		st.Previous = 0
	}
	st.Level, st.Last, st.Unit, st.Quiet, st.Log = min(st.Level, bucket.MaxPortable), min(st.Last, safe), max(st.Unit, 1), min(st.Quiet, safe), ""
	return st
}
