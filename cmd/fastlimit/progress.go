package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows a bar on a terminal, and nothing elsewhere. The nil pointer
// is the latter.
type progress struct {
	out io.Writer
	bar *progressbar.ProgressBar
	all int // what bar counts up to; 0 while reading
}

func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &progress{out: f}
}

// start shows a bar that counts bytes up to size, which is -1 if unknown.
func (p *progress) start(size int64) {
	if p != nil {
		p.show(size, "reading", true)
	}
}

// reading returns r with its bytes counted by the bar.
func (p *progress) reading(r io.Reader) io.Reader {
	if p == nil {
		return r
	}
	return io.TeeReader(r, p.bar)
}

// judged counts requests, once reading is over.
func (p *progress) judged(done, all int) {
	if p == nil || all == 0 {
		return
	}
	if p.all != all {
		p.clear()
		p.all = all
		p.show(int64(all), "judging", false)
	}
	_ = p.bar.Set(done) // a bar that cannot be drawn is no reason to stop
}

func (p *progress) show(size int64, what string, bytes bool) {
	p.bar = progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(p.out),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(bytes),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
}

func (p *progress) clear() {
	if p != nil && p.bar != nil {
		_ = p.bar.Clear()
	}
}
