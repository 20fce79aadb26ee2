package cli

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Progress shows a progress bar on a terminal. A nil pointer shows nothing, so callers
// need not ask whether there is one. It is not safe for concurrent use.
type Progress struct {
	out io.Writer
	bar *progressbar.ProgressBar
	all int // what the bar counts up to; 0 while reading
}

// NewProgress shows progress on w, if that is a terminal.
func NewProgress(w io.Writer) *Progress {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &Progress{out: f}
}

// Bytes shows a bar that counts bytes up to size, which is -1 if unknown.
func (p *Progress) Bytes(size int64) {
	if p != nil {
		p.show(size, "reading", true)
	}
}

// Reading returns r with its bytes counted by the bar.
func (p *Progress) Reading(r io.Reader) io.Reader {
	if p == nil {
		return r
	}
	return io.TeeReader(r, p.bar)
}

// Step shows how much of what is done. A nil bar, or nothing to do, shows nothing.
func (p *Progress) Step(done, total int, what string) {
	if p == nil || total == 0 {
		return
	}
	if p.bar == nil || p.all != total {
		p.Clear()
		p.all = total
		p.show(int64(total), what, false)
	}
	p.bar.Describe(what)
	_ = p.bar.Set(done) // failing to draw is no reason to stop
}

// show replaces the bar. It draws at most ten times a second: reading and judging are
// counted in calls that take less than a microsecond.
func (p *Progress) show(size int64, what string, bytes bool) {
	p.bar = progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(p.out),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(bytes),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
}

// Clear removes the bar. Call it before anything else is written to the terminal.
func (p *Progress) Clear() {
	if p != nil && p.bar != nil {
		_ = p.bar.Clear()
	}
}
