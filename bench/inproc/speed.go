package inproc

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/fastlimit/fastlimit/bench/proc"
	"github.com/fastlimit/fastlimit/bench/workload"
)

// speedJob measures how fast one limiter decides, round by round: it answers a
// line of input with a round.
type speedJob struct {
	Workload string
	Cores    int
	Round    time.Duration // about how long one round shall last
	Seed     uint64
}

// round is a number of decisions and what they took.
type round struct {
	Ops    int64
	Took   time.Duration
	CPU    time.Duration // of the process; 0 where it is not known
	Allocs uint64
}

// nsPerOp is wall time between two decisions, of all cores together.
func (r round) nsPerOp() float64 { return float64(r.Took) / float64(r.Ops) }

const (
	speedKeys = 1 << 20
	// speedStep is the time between two decisions in the time that limiters
	// are told: a million requests per second.
	speedStep = time.Microsecond
)

// feed is the keys of a speed workload: ids in turn, or all numbers in turn.
type feed struct {
	ids  []uint32 // power of two; nil: distinct
	step time.Duration
	warm int // decisions before the first round
}

// speedWorkloads are the workloads of [Local].
var speedWorkloads = []string{"zipf-1.1", "distinct", "hot-denied", "hot-allowed"}

// outOfReach is the limit of hot-allowed: no client sends a billion requests a second,
// and no window of 2 s is full before it ends.
var outOfReach = oracle.Rule{Rate: fastlimit.Rate{N: 1e9, Per: time.Second}, Burst: 2e9}

// speedRule is the limit under a workload: the one that all limiters are given, unless
// the workload wants its own.
func speedRule(workload string, r oracle.Rule) oracle.Rule {
	if workload == "hot-allowed" {
		return outOfReach
	}
	return r
}

// newFeed draws all keys beforehand: drawing one costs as much as deciding.
func newFeed(name string, seed uint64) (feed, error) {
	switch name {
	case "zipf-1.1":
		z, err := workload.NewZipf(rand.New(rand.NewPCG(seed, 1)), 1.1, speedKeys)
		if err != nil {
			return feed{}, err
		}
		ids := make([]uint32, speedKeys)
		for i := range ids {
			ids[i] = uint32(z.Next())
		}
		return feed{ids, speedStep, 2 * speedKeys}, nil
	case "distinct":
		return feed{nil, speedStep, speedKeys / 2}, nil
	case "hot-denied": // time stands still, so that the client stays over its limit
		return feed{[]uint32{7}, 0, 100_000}, nil
	case "hot-allowed": // the same client and loop, so that the two can be compared
		return feed{[]uint32{7}, speedStep, 100_000}, nil
	}
	return feed{}, fmt.Errorf("bench: no workload %q: want one of %q", name, speedWorkloads)
}

// speedRun is a limiter under a speed workload.
type speedRun struct {
	limiter Limiter
	feed    feed
	cores   int
	workers []chan<- func() // one for each core; nil for one core
	done    int64           // decisions so far
}

// run makes ops decisions on all cores.
func (s *speedRun) run(ops int64) round {
	each := max(1, ops/int64(s.cores))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var all sync.WaitGroup
	cpu, begin := selfCPU(), time.Now()
	for core, worker := range s.workers {
		all.Add(1)
		worker <- func() {
			defer all.Done()
			s.decide(s.done+int64(core)*each, each)
		}
	}
	if s.workers == nil {
		s.decide(s.done, each)
	}
	all.Wait()
	took := time.Since(begin)
	cpu = selfCPU() - cpu
	runtime.ReadMemStats(&after)
	s.done += each * int64(s.cores)
	return round{each * int64(s.cores), took, cpu, after.Mallocs - before.Mallocs}
}

// decide makes n decisions, numbered from first. All cores start a round at the
// same simulated time, and each advances it by one step for every decision that
// all cores together make.
func (s *speedRun) decide(first, n int64) {
	l, ids, mask := s.limiter, s.feed.ids, int64(len(s.feed.ids)-1)
	now, step := time.Duration(s.done)*s.feed.step, s.feed.step*time.Duration(s.cores)
	for i := first; i < first+n; i++ {
		id := uint32(i)
		if ids != nil {
			id = ids[i&mask]
		}
		now += step
		l.Allow(workload.V4(id), now)
	}
}

// startWorkers starts a thread on each of n cores. Left to itself the kernel
// may keep threads that wake for a few milliseconds at a time on one core, and
// two cores then look no faster than one.
func startWorkers(n int) ([]chan<- func(), error) {
	workers, pinned := make([]chan<- func(), n), make(chan error)
	for core := range n {
		todo := make(chan func())
		workers[core] = todo
		go func() {
			runtime.LockOSThread()
			pinned <- proc.PinThread(core)
			for do := range todo {
				do()
			}
		}()
	}
	var err error
	for range n {
		err = errors.Join(err, <-pinned)
	}
	return workers, err
}

// calibrate warms the limiter up and returns how many decisions take so long.
func (s *speedRun) calibrate(want time.Duration) int64 {
	const patience = 5 * time.Second // a slow limiter is not warmed up for minutes
	const ops = 1 << 12
	for begin := time.Now(); s.done < int64(s.feed.warm) && time.Since(begin) < patience; {
		s.run(4 * ops)
	}
	fastest := math.Inf(1) // of several: an interruption makes one too long
	for begin, i := time.Now(), 0; i < 8 && time.Since(begin) < patience; i++ {
		fastest = min(fastest, s.run(ops).nsPerOp())
	}
	return max(int64(s.cores), int64(float64(want)/fastest))
}

func (j *speedJob) run(c Contender, rule oracle.Rule, in io.Reader, out *json.Encoder) (err error) {
	runtime.GOMAXPROCS(j.Cores) // collect garbage on the cores that it may use
	s := speedRun{cores: j.Cores}
	if j.Cores > 1 {
		if s.workers, err = startWorkers(j.Cores); err != nil {
			return err
		}
	}
	if s.feed, err = newFeed(j.Workload, j.Seed); err != nil {
		return err
	}
	if s.limiter, err = c.New(rule); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLimiter(s.limiter)) }()
	ops := s.calibrate(j.Round)
	settle()
	if err := out.Encode(answer{Round: &round{}}); err != nil {
		return err
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		r := s.run(ops)
		if err := failure(s.limiter); err != nil {
			return err
		}
		settle()
		if err := out.Encode(answer{Round: &r}); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until this process is idle, so that its garbage collector does not
// run during the round of the next limiter.
func settle() {
	const step, idle, patience = 2 * time.Millisecond, 200 * time.Microsecond, time.Second
	for waited := time.Duration(0); waited < patience; waited += step {
		before := selfCPU()
		time.Sleep(step)
		if selfCPU()-before < idle {
			return
		}
	}
}

// selfCPU is the CPU time of this process, 0 where it is not known.
func selfCPU() time.Duration {
	t, _ := proc.SelfCPU() // 0 beside an error
	return t
}

// noLimiter is the cost of measuring: the loop, the address, the call.
func noLimiter() Contender {
	return Contender{
		Name: "none", Setup: "the loop of the harness alone, contained in every other figure",
		New: func(oracle.Rule) (Limiter, error) { return nothing{}, nil },
	}
}

// nothing denies by default, which no figure shows.
type nothing struct{}

//go:noinline
func (nothing) Allow(netip.Addr, time.Duration) bool { return false }
