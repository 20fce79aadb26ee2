package logs

import (
	"log/slog"
	"sync"
	"time"
)

// MaxBanLines is the most lines a second of beginning bans.
const MaxBanLines = 100

// Bans logs one line for each ban that a rule has begun, when the second is over. The rest are counted. Safe
// for concurrent use; the zero value is ready.
type Bans struct {
	mu     sync.Mutex
	lines  []Ban  // of this second; guarded by mu
	others uint64 // those without a line; guarded by mu
}

// Ban is what a line says.
type Ban struct {
	Client string // an address, a prefix, or empty if the rule counts by something else
	Rule   string
	Key    string // printable
	Left   time.Duration
	Times  int
	Shadow bool // the rule only counts
}

// Note keeps what is logged of a ban; describe is called if there is a line left. It does no I/O, because a
// request waits for it.
func (b *Bans) Note(describe func() Ban) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lines) == MaxBanLines {
		b.others++
		return
	}
	b.lines = append(b.lines, describe())
}

// EndSecond begins a second, and logs the last one.
func (b *Bans) EndSecond(to *slog.Logger) {
	b.mu.Lock()
	lines, others := b.lines, b.others
	b.lines, b.others = nil, 0
	b.mu.Unlock()
	for i := range lines {
		lines[i].log(to)
	}
	Suppressed(to, "bans not logged", others)
}

// log writes the line. As for a denial, the client comes first, and is an address, a prefix or empty,
// whatever clients send. A ban in shadow mode has another message, so that no tool bans by it.
func (b *Ban) log(to *slog.Logger) {
	what := "banned"
	if b.Shadow {
		what = "would be banned"
	}
	to.Info(what,
		slog.String("client", b.Client),
		slog.String("rule", b.Rule),
		slog.String("key", b.Key),
		slog.Float64("for", seconds(b.Left)),
		slog.Int("times", b.Times),
	)
}
