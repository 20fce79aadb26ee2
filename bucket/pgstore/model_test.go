package pgstore

import (
	"context"
	"flag"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/bucket/step"
	"github.com/jackc/pgx/v5"
)

// A lab runs the function on chosen rows at chosen times and compares with the model.
type lab struct {
	t     testing.TB
	conn  *pgx.Conn
	sql   string
	steps [bucket.NumAlgorithms]int // that were compared
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

// scene is one batch: rows, the time, and operations on them, several on one row too.
type scene struct {
	states []step.State // the zero value: no row
	now    uint64
	clock  remote.Dating // what dates the operations
	ops    []bucket.Op
	on     []int // index of the state of each operation
}

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
		for k, s := range sc.states {
			if s != (step.State{}) {
				pipe.Queue(setRow, []byte(sc.key(i, k)), int16(s.Algorithm), signed(s.Level), signed(s.Previous), signed(s.Last), signed(s.Unit), signed(s.Quiet), times(s.Log))
			}
		}
		b := &batches[i]
		for j := range sc.ops {
			sc.ops[j].Key = sc.key(i, sc.on[j])
			b.add(&sc.ops[j])
		}
		b.arrange()
		pipe.Queue(l.sql, b.fill(&sc.clock, time.Minute, signed(sc.now))...)
		for k := range sc.states {
			pipe.Queue(getRow, []byte(sc.key(i, k)))
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
		for _, s := range scenes[i].states {
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

func (*scene) key(scene, state int) string { return strconv.Itoa(scene) + "." + strconv.Itoa(state) }

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
	want, expires := slices.Clone(sc.states), make([]uint64, len(sc.states))
	for i, o := range b.ops {
		on := sc.on[slices.IndexFunc(sc.ops, func(op bucket.Op) bool { return op.Key == o.op.Key })]
		request := step.NewRequest(o.op, sc.clock.Date(o.op))
		request.Sent = sc.clock.SentDate()
		before := want[on]
		after, res := step.Apply(before, sc.now, request)
		l.steps[o.op.Shape.Algorithm()]++
		r := b.rows[i]
		got := step.Result{Granted: uint64(r.granted), Level: uint64(r.reply), Late: r.late, Write: res.Write, TTL: res.TTL}
		if got != res || uint64(r.now) != sc.now {
			l.t.Fatalf("at %d: %+v\non %+v: %+v, want %+v", sc.now, *o.op, before, r, res)
		}
		if res.Write {
			want[on], expires[on] = after, sc.now+uint64(res.TTL)*1000
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
		l.t.Fatalf("%+v: %v, want %+v", sc.ops, err, want)
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
		l.t.Fatalf("%+v\nrow %d at %d was %+v\nis %+v until %d\nwant %+v until %d", sc.ops, k, sc.now, sc.states[k], got, until, want, expires)
	}
}

var rounds = flag.Int("rounds", 10, "rounds of TestSQLIsTheModel, of some 4000 steps each; 250 for 10^6 steps")

// Go and SQL agree bit for bit, on some 40,000 steps of all algorithms.
func TestSQLIsTheModel(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	rng := rand.New(rand.NewPCG(3, 4))
	for range *rounds {
		scenes := make([]scene, 1000)
		for i := range scenes {
			scenes[i] = randomScene(rng)
		}
		l.run(scenes)
	}
	all := 0
	for a, n := range l.steps {
		all += n
		t.Logf("%d steps of the %v", n, bucket.Algorithm(a))              //nolint:gosec // one of few
		if n < 100**rounds && bucket.Algorithm(a) != bucket.TokenBucket { //nolint:gosec // see above
			t.Errorf("%v: %d steps in %d rounds", bucket.Algorithm(a), n, *rounds) //nolint:gosec // see above
		}
	}
	t.Logf("%d steps in all", all)
}

// A batch as large as they come.
func TestSQLManyKeys(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	rng := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		sc := scene{now: 1_763_596_800_000_000, clock: remote.Dating{Reading: remote.Reading{Micros: 1_763_596_800_000_000, Got: time.Unix(0, 0)}, Sent: time.Unix(0, 0)}}
		for i := range remote.MaxBatch {
			shape := randomShape(rng)
			sc.states = append(sc.states, randomState(rng, shape, sc.now))
			sc.on = append(sc.on, i)
			sc.ops = append(sc.ops, randomOp(rng, shape, sc.now))
		}
		l.run([]scene{sc})
	}
}
