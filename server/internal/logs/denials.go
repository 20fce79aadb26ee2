package logs

import (
	"hash/maphash"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/nat64"
)

const (
	// MaxDenialLines is the most lines a second, one for each client.
	MaxDenialLines = 100

	denialStripes = 16
	denialGroups  = 64 // of a stripe: 5 slots for each client that has a line
	denialWays    = 8  // slots of a group, one cache line
)

// Denials logs one line per second for each client that was denied in it, with the
// number of denials. Its memory is fixed except for the text of at most
// MaxDenialLines lines.
//
// It must cost a flood almost nothing (BenchmarkDenialLog). A request finds its client in its own stripe by
// reading one cache line, and adds to a counter that few others touch: no lock, no cache line that all cores
// write. Only a client's first denial in a second takes the lock, once per stripe, and only while a line is
// left. Denials without a line are computed: all minus those on lines.
//
// A client is an IPv4 address or an IPv6 /64, so that one subscriber cannot take all lines. Safe for
// concurrent use.
type Denials struct {
	seed    maphash.Seed
	epoch   atomic.Uint32 // the current second
	full    atomic.Bool   // no line is left
	stripes [denialStripes]denialStripe

	limit int
	mu    sync.Mutex
	lines []Denial           // guarded by mu
	index map[netip.Addr]int // into lines; guarded by mu

	lastTotal uint64 // used by the ticker only
}

type denialStripe struct {
	// A slot is hash<<32 | epoch<<8 | index of the line. A slot of another epoch
	// is free, so nothing has to be cleared when a second ends.
	slots [denialGroups][denialWays]atomic.Uint64
	// Counts of odd and even seconds. A denial in progress when its second ends may still add to the old ones
	// after they have been read. They are cleared a second later, and the denial counts as one without a
	// line.
	counts [2][MaxDenialLines]atomic.Uint32
}

// Denial is what a line says: a client's first denial in a second.
type Denial struct {
	Client netip.Addr // invalid: unknown
	Rule   string     // empty: the deny list, or a ban by an operator
	Key    string     // printable
	Stage  fastlimit.Stage
	Retry  time.Duration

	Method, Host, Path string // printable
}

// NewDenials returns a log with at most limit lines a second; none if it is negative.
func NewDenials(limit int) *Denials {
	d := &Denials{seed: maphash.MakeSeed(), limit: max(limit, 0)}
	d.index = make(map[netip.Addr]int, d.limit)
	d.full.Store(d.limit == 0)
	return d
}

const epochMask = 1<<24 - 1

// Subscriber returns an IPv4 address unchanged, also that of a client behind a translator, and the first
// address of an IPv6 address's /64, which is what one subscriber has. It is invalid for an invalid address.
func Subscriber(addr netip.Addr) netip.Addr {
	if addr = nat64.Client(addr); !addr.Is6() {
		return addr
	}
	p, _ := addr.Prefix(64) // 64 is a valid length
	return p.Addr()
}

// place returns the slots where a client may be, and the upper bits of a slot that is the client's in this
// second.
func (d *Denials) place(stripe uint32, who netip.Addr, epoch uint32) (*[denialWays]atomic.Uint64, uint64) {
	raw := who.As16()
	h := maphash.Bytes(d.seed, raw[:])
	group := &d.stripes[stripe%denialStripes].slots[h%denialGroups]
	return group, h>>32<<32 | uint64(epoch&epochMask)<<8
}

const indexMask = 1<<8 - 1

// Count counts a denial of a client. It reports false if the client has no line yet and one is left: call Add
// then.
func (d *Denials) Count(stripe uint32, addr netip.Addr) bool {
	epoch := d.epoch.Load()
	group, tag := d.place(stripe, Subscriber(addr), epoch)
	for i := range group {
		if v := group[i].Load(); v&^indexMask == tag {
			d.stripes[stripe%denialStripes].counts[epoch&1][v&indexMask].Add(1)
			return true
		}
	}
	return d.full.Load()
}

// Add counts the denial and gives its client a line, unless another stripe has done so or none is left.
// describe is called for a new line.
func (d *Denials) Add(stripe uint32, addr netip.Addr, describe func() Denial) {
	who := Subscriber(addr)
	d.mu.Lock()
	defer d.mu.Unlock()
	i, known := d.index[who]
	if !known {
		if len(d.lines) == d.limit {
			return
		}
		i = len(d.lines)
		d.lines, d.index[who] = append(d.lines, describe()), i
		d.full.Store(len(d.lines) == d.limit)
	}
	epoch := d.epoch.Load() // constant while the lock is held
	group, tag := d.place(stripe, who, epoch)
	at := i % denialWays // if none is free, which is rare
	for w := range group {
		if v := group[w].Load(); uint32(v>>8)&epochMask != epoch&epochMask {
			at = w
			break
		}
	}
	group[at].Store(tag | uint64(i))
	d.stripes[stripe%denialStripes].counts[epoch&1][i].Add(1)
}

// EndSecond begins a second, and logs the last one. total is the number of all
// denials so far.
func (d *Denials) EndSecond(total uint64, to *slog.Logger) {
	lines, counts, others := d.next(total)
	for i := range lines {
		lines[i].log(to, counts[i])
	}
	if d.limit > 0 {
		Suppressed(to, "denials not logged", others)
	}
}

// next begins a second. It returns the lines of the last one, the number of denials on each, and how many
// others there were; total is the number of all denials so far.
func (d *Denials) next(total uint64) (lines []Denial, counts []uint64, others uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.epoch.Load()
	for s := range d.stripes {
		counts := &d.stripes[s].counts[(old+1)&1]
		for i := range counts {
			counts[i].Store(0)
		}
	}
	d.epoch.Store(old + 1)
	lines, counts = d.lines, make([]uint64, len(d.lines))
	onLines := uint64(0)
	for i := range lines {
		for s := range d.stripes {
			counts[i] += uint64(d.stripes[s].counts[old&1][i].Load())
		}
		onLines += counts[i]
	}
	d.lines = nil
	clear(d.index)
	d.full.Store(d.limit == 0)
	events := onLines
	if total > d.lastTotal { // it may lag behind the lines
		events = max(total-d.lastTotal, onLines)
	}
	d.lastTotal += events
	return lines, counts, events - onLines
}

// log writes the line. The client comes first and is always an address, so a filter anchored there, such as
// fail2ban's, cannot be misled by text from clients.
func (l *Denial) log(to *slog.Logger, count uint64) {
	to.Info("denied",
		slog.Any("client", l.Client),
		slog.String("rule", l.Rule),
		slog.String("key", l.Key),
		slog.String("stage", l.Stage.String()),
		slog.Float64("retry_after", seconds(l.Retry)),
		slog.Uint64("count", count),
		slog.String("method", l.Method),
		slog.String("host", l.Host),
		slog.String("path", l.Path),
	)
}

// seconds is d with three decimals, rounded up: a client that waits that long is admitted.
func seconds(d time.Duration) float64 {
	ms := (max(d, 0) + time.Millisecond - 1) / time.Millisecond
	return float64(ms) / 1000
}
