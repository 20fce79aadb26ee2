package logs

import (
	"log/slog"
	"sync"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/server/internal/text"
)

// MaxBanLines is the most lines a second of bans that begin.
const MaxBanLines = 100

// Bans logs one line for each ban that a rule has begun, when the second is over. The
// others are counted. Safe for concurrent use; the zero value is ready.
type Bans struct {
	mu     sync.Mutex
	lines  []fastlimit.Ban // of this second; guarded by mu
	others uint64          // that have no line; guarded by mu
}

// Note keeps what is logged of a ban. It is short and does no I/O, as a request waits for it.
func (b *Bans) Note(ban *fastlimit.Ban) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lines) == MaxBanLines {
		b.others++
		return
	}
	b.lines = append(b.lines, *ban)
}

// EndSecond begins a second, and logs the last one.
func (b *Bans) EndSecond(to *slog.Logger) {
	b.mu.Lock()
	lines, others := b.lines, b.others
	b.lines, b.others = nil, 0
	b.mu.Unlock()
	for i := range lines {
		logBan(&lines[i], to)
	}
	Suppressed(to, "bans not logged", others)
}

// logBan writes a line. As in that of a denial, the client comes first, and is an address, a
// prefix or empty, whatever clients send. A ban in shadow has another message, so that
// nobody bans by it.
func logBan(b *fastlimit.Ban, to *slog.Logger) {
	client := ""
	if _, byAddress := b.Prefix(); byAddress {
		client = b.Key
	}
	what := "banned"
	if b.Rule.Config().Mode == fastlimit.Shadow {
		what = "would be banned"
	}
	to.Info(what,
		slog.String("client", client),
		slog.String("rule", b.Rule.Name()),
		slog.String("key", text.Printable(b.Key)),
		slog.Float64("for", seconds(b.Left)),
		slog.Int("times", b.Times),
	)
}
