package engine

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/machine"
	"github.com/fastlimit/fastlimit/internal/state"
	"github.com/fastlimit/fastlimit/internal/testkit/judge"
	"github.com/fastlimit/fastlimit/sketch"
)

// machineWorld is the machine that a world's limiter runs on. It is restarted, it is suspended, and its wall
// clock is set.
type machineWorld struct {
	boot int
	up   time.Duration
	wall time.Time
}

func (m *machineWorld) now() machine.Instant {
	return machine.Instant{Machine: "m", Boot: fmt.Sprint(m.boot), Up: m.up, Wall: m.wall}
}

func (m *machineWorld) pass(d time.Duration) { m.up, m.wall = m.up+d, m.wall.Add(d) }

// kept is the state of a world at one moment: what was saved, and what was true then.
type kept struct {
	file []byte
	at   time.Duration // on the line
	true time.Duration // what had passed
	w    world
}

func (w *world) copyTruth() (c world) {
	c = *w
	c.truth, c.bans, c.worst = slices.Clone(w.truth), slices.Clone(w.bans), slices.Clone(w.worst)
	for i := range w.truth {
		c.truth[i], c.bans[i], c.worst[i] = slices.Clone(w.truth[i]), slices.Clone(w.bans[i]), slices.Clone(w.worst[i])
		for k, o := range w.truth[i] {
			o := *o
			o.Times = slices.Clone(o.Times)
			c.truth[i][k] = &o
			if b := w.bans[i][k]; b != nil {
				b := *b
				b.denials = slices.Clone(b.denials)
				c.bans[i][k] = &b
			}
		}
	}
	c.excess, c.before = slices.Clone(w.excess), slices.Clone(w.before)
	for i, r := range w.lim.rules {
		c.before[i] += r.buckets.Table.Forgiven()
	}
	return c
}

// restarts drives a world whose process is killed repeatedly, and continues with what was saved some time
// before. Nothing after that counts any more, neither for P1 nor for P2: both hold as if the clients had not
// sent it.
type restarts struct {
	w       *world
	m       machineWorld
	passed  time.Duration // in truth
	now     time.Duration // on the line
	saved   *kept
	refused int // files that could not be used
	used    int
}

func (s *restarts) save(t *testing.T) {
	var file bytes.Buffer
	if err := s.w.lim.save(&file, s.m.now()); err != nil {
		t.Fatal(err)
	}
	s.saved = &kept{file.Bytes(), s.w.latest, s.passed, s.w.copyTruth()}
}

// kill ends the process. The next one begins a while later.
func (s *restarts) kill(t *testing.T, rng *rand.Rand) {
	drain := s.w.lim.plan.Rules[0].DrainTime()
	pause := time.Duration(rng.Int64N(int64(drain)))
	switch rng.IntN(4) {
	case 0:
		pause = time.Duration(rng.Int64N(int64(2 * time.Millisecond)))
	case 1:
		pause *= 3
	}
	s.m.pass(pause)
	s.passed += pause
	set := time.Duration(rng.Int64N(int64(drain))) - drain/2
	was, elapsed := savedInstant(t, s.saved.file), s.passed-s.saved.true
	if rng.IntN(3) == 0 { // a new start
		s.m.boot++
		s.m.up = min(pause, time.Duration(rng.Int64N(int64(drain))))
	}
	if s.m.now().Boot == was.Boot {
		s.m.wall = s.m.wall.Add(set)
	} else {
		if set < 0 {
			set += s.m.up - elapsed // by so much that it shows
		}
		s.m.wall = was.Wall.Add(elapsed + set)
	}
	age, err := s.m.now().Since(was)
	if err != nil {
		s.fresh(t)
		return
	}
	if age < elapsed {
		t.Fatalf("the age is %v where %v have passed", age, elapsed)
	}
	clock := new(ManualClock)
	lim, err := Load(bytes.NewReader(s.saved.file), LoadOptions{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	s.used++
	*s.w = s.saved.w.copyTruth()
	s.w.before = slices.Clone(s.saved.w.before)
	s.now = s.saved.at + age
	clock.Set(s.now)
	s.w.lim, s.w.latest = lim, s.now
}

// fresh begins without any state.
func (s *restarts) fresh(t *testing.T) {
	s.refused++
	s.now = max(s.now, s.w.latest)
	clock := new(ManualClock)
	clock.Set(s.now)
	plan := s.w.lim.plan
	lim, err := newLimiter(&plan, &Config{Secret: sketch.Secret{2}, Clock: clock}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := s.w
	w.lim = lim
	for i := range w.truth {
		for k, r := range lim.rules {
			w.truth[i][k], w.bans[i][k], w.worst[i][k] = judge.Of(r.config), newBanTruth(r.config.Ban), 0
			w.truth[i][k].At(s.now)
		}
	}
	clear(w.excess)
	clear(w.before)
	s.save(t)
}

func savedInstant(t *testing.T, file []byte) machine.Instant {
	t.Helper()
	r, err := state.Open(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.At
}

// TestSandwichAcrossRestarts makes more than 10^6 decisions, and kills the process every
// few hundred.
func TestSandwichAcrossRestarts(t *testing.T) {
	t.Parallel()
	total, used, refused := 0, 0, 0
	for i, c := range sandwichCases() {
		steps := int(float64(c.steps) * *sandwichScale / 60)
		if raceEnabled {
			steps /= 6
		}
		rng := rand.New(rand.NewPCG(uint64(i), 45))
		for left := steps; left > 0; {
			s := &restarts{w: newWorld(t, rng, c.clients, c.geo, c.rules...), m: machineWorld{wall: time.Unix(1e9, 0)}}
			s.w.peers = c.peers
			s.save(t)
			n := s.drive(t, c.name, rng, left)
			left, total = left-n, total+n
			used, refused = used+s.used, refused+s.refused
		}
	}
	t.Logf("%d decisions, %d restarts with what was saved, %d without", total, used, refused)
	if total < 1_000_000 && !raceEnabled && *sandwichScale >= 1 || refused == 0 || used < 3*refused {
		t.Errorf("%d decisions, %d restarts with what was saved, %d without", total, used, refused)
	}
}

func (s *restarts) drive(t *testing.T, name string, rng *rand.Rand, steps int) (done int) {
	t.Helper()
	const century = 50 * 365 * 24 * time.Hour
	w := s.w
	for done < steps && s.now < century && s.passed < century {
		p := newPattern(rng, w, len(w.digests))
		for range min(200+rng.IntN(1000), steps-done) {
			if max(s.now, w.latest) > century {
				return cmp.Or(done, 1)
			}
			done++
			gap := p.gap(rng, w)
			s.now += gap
			if was := w.latest; s.now > was { // else it is an old reading
				s.m.pass(s.now - was)
				s.passed += s.now - was
			}
			if w.peers && rng.IntN(8) == 0 {
				w.peer(rng, s.now)
			}
			if err := w.request(p.client(rng), p.cost(rng), s.now, p.rules); err != nil {
				t.Fatalf("%s: decision %d, %s, after %d restarts: %v", name, done, p.name, s.used, err)
			}
			switch rng.IntN(300) {
			case 0, 1:
				s.save(t)
			case 2:
				s.kill(t, rng)
			}
		}
		advanceAt(w.lim, s.now)
	}
	return cmp.Or(done, 1)
}
