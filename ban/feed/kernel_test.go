package feed

import (
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// kernel is a Writer that keeps elements as nftables does: by their own clock, and a
// batch as a whole or not at all.
type kernel struct {
	t *testing.T

	mu       sync.Mutex
	open     bool
	elements map[netip.Prefix]time.Time // until when
	batches  [][]Change                 // that were carried out
	asked    []time.Time                // when Open, Apply or Counters was called
	opens    int
	packets  uint64

	size         int                   // how many elements there may be; 0: any number
	bad          map[netip.Prefix]bool // that it does not take
	down         error                 // what everything fails with
	openFails    error                 // what Open fails with
	before, late time.Duration         // how long a batch takes until it is carried out, and from then on
	lies         bool                  // a batch that fails is carried out all the same
}

func (k *kernel) call() func() {
	k.mu.Lock()
	k.asked = append(k.asked, time.Now())
	return k.mu.Unlock
}

func (k *kernel) Open() error {
	defer k.call()()
	k.open = false
	if err := errors.Join(k.openFails, k.down); err != nil {
		return err
	}
	k.open, k.elements, k.packets = true, make(map[netip.Prefix]time.Time), 0
	k.opens++
	return nil
}

func (k *kernel) Apply(changes []Change) error {
	k.check(changes)
	k.sleep(&k.before)
	err := k.carryOut(changes)
	k.sleep(&k.late)
	return err
}

func (k *kernel) sleep(d *time.Duration) {
	k.mu.Lock()
	pause := *d
	k.mu.Unlock()
	time.Sleep(pause)
}

func (k *kernel) carryOut(changes []Change) error {
	defer k.call()()
	if k.down != nil && !k.lies {
		return k.down
	}
	if !k.open {
		return &Error{ClassLost, errors.New("lost")}
	}
	now := time.Now()
	room := 0
	for _, end := range k.elements {
		if end.After(now) {
			room--
		}
	}
	for _, c := range changes {
		if k.bad[c.Prefix] {
			return &Error{ClassElement, errors.New("bad element")}
		}
		if c.For > 0 && !k.elements[c.Prefix].After(now) {
			room--
		}
	}
	if k.size > 0 && k.size+room < 0 {
		return &Error{ClassFull, errors.New("full set")}
	}
	for _, c := range changes {
		delete(k.elements, c.Prefix)
		if c.For > 0 {
			k.elements[c.Prefix] = now.Add(c.For)
		}
	}
	k.batches = append(k.batches, append([]Change(nil), changes...))
	return k.down
}

// check is what every batch has to be like.
func (k *kernel) check(changes []Change) {
	seen := make(map[netip.Prefix]bool)
	for _, c := range changes {
		if c.Prefix != c.Prefix.Masked() || c.Prefix.Addr().Is4In6() || seen[c.Prefix] || c.For != 0 && c.For < least {
			k.t.Errorf("a batch has %v", c)
		}
		seen[c.Prefix] = true
	}
	if len(changes) == 0 || len(changes) > MaxBatch {
		k.t.Errorf("a batch has %d changes", len(changes))
	}
}

func (k *kernel) Counters() (packets, bytes uint64, err error) {
	defer k.call()()
	switch {
	case k.down != nil:
		return 0, 0, k.down
	case !k.open:
		return 0, 0, &Error{ClassLost, errors.New("lost")}
	}
	return k.packets, 60 * k.packets, nil
}

func (k *kernel) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open, k.elements = false, nil
	return nil
}

// set changes the kernel's mood.
func (k *kernel) set(f func(k *kernel)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f(k)
}

// slow has batches take this long, before they are carried out and afterwards.
func (k *kernel) slow(before, late time.Duration) {
	k.set(func(k *kernel) { k.before, k.late = before, late })
}

// sent are the batches that were carried out.
func (k *kernel) sent() [][]Change {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.batches
}

// lose is what another process does to a table that has no owner.
func (k *kernel) lose() { k.set(func(k *kernel) { k.open, k.elements = false, nil }) }

// held are the elements that are alive.
func (k *kernel) held() map[netip.Prefix]time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	alive := make(map[netip.Prefix]time.Duration)
	for p, end := range k.elements {
		if left := time.Until(end); left > 0 {
			alive[p] = left
		}
	}
	return alive
}

// stand is a feed, its kernel and its log.
type stand struct {
	*Feed
	kernel *kernel
	log    testkit.Log
}

// remembered is how many prefixes there are, those included that wait to be removed.
func (s *stand) remembered() int {
	s.bans.mu.Lock()
	defer s.bans.mu.Unlock()
	return len(s.bans.all)
}

// within runs f in a bubble, on a feed whose kernel works.
func within(t *testing.T, most int, f func(t *testing.T, s *stand)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stand{kernel: &kernel{t: t}}
		var err error
		s.Feed, err = Open(Config{Writer: s.kernel, Max: most, Logger: slog.New(slog.NewTextHandler(&s.log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		f(t, s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// nth is the n-th of many addresses.
func nth(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 32)
}
