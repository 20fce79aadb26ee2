package statefile

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"sync"
	"syscall"
	"time"
)

const (
	// Every is the time between writes, if a write takes no longer.
	Every = 10 * time.Second
	// Pace is the most of a disk that it takes, in bytes per second.
	Pace = 4 << 20
)

// Config configures a [Keeper]. Everything but Every is required.
type Config struct {
	Path  string                  // of the file, for the log
	Write func(w io.Writer) error // writes the content, in pieces
	Log   *slog.Logger
	Every time.Duration // 0 means Every
}

// Keeper keeps a file up to date. Make it with [NewKeeper]. Stats is safe for concurrent use with everything
// else.
type Keeper struct {
	config Config

	mu    sync.Mutex // guards what follows
	stats Stats
	bad   Class // of the last write
}

// Class is why a file was not written.
type Class string

// The classes, and the remedies.
const (
	ClassFull    Class = "full"    // the disk, or a quota: make room
	ClassRefused Class = "refused" // no permission to write, or read-only: grant it
	ClassMissing Class = "missing" // the directory is gone: create it
	ClassOther   Class = "other"   // see the log
)

// Classes are all classes.
var Classes = [...]Class{ClassFull, ClassRefused, ClassMissing, ClassOther}

// Stats are counts for metrics.
type Stats struct {
	Written time.Time     // when the file was last written successfully
	Bytes   int64         // its size
	Took    time.Duration // time of the last write, pauses included
	Errors  map[Class]uint64
}

// NewKeeper returns a keeper that has written nothing yet.
func NewKeeper(c Config) *Keeper {
	if c.Every == 0 {
		c.Every = Every
	}
	return &Keeper{config: c, stats: Stats{Errors: map[Class]uint64{}}}
}

// Run writes the file at once, and then repeatedly until ctx ends, which aborts a write.
func (k *Keeper) Run(ctx context.Context, f *File) {
	for pause := time.Duration(0); wait(ctx, pause); {
		begun := time.Now()
		k.write(f, func(w io.Writer) io.Writer { return &pacer{w: w, ctx: ctx, begun: begun} })
		pause = max(k.config.Every-time.Since(begun), least)
	}
}

// Finish writes the file once more, without pauses. Call it when Run has returned.
func (k *Keeper) Finish(f *File) { k.write(f, func(w io.Writer) io.Writer { return w }) }

// write writes the file, and logs the first failure and the first success after it.
func (k *Keeper) write(f *File, paced func(io.Writer) io.Writer) {
	begun := time.Now()
	n, err := f.Write(func(w io.Writer) error { return k.config.Write(paced(w)) })
	if errors.Is(err, context.Canceled) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	class := classOf(err)
	if class != k.bad {
		if class != "" {
			k.config.Log.Error("state file not written: the last good one is kept, and this process continues; trying again every few seconds",
				slog.String("file", k.config.Path), slog.String("class", string(class)), slog.Any("error", err))
		} else {
			k.config.Log.Info("state file written again", slog.String("file", k.config.Path))
		}
		k.bad = class
	}
	if class != "" {
		k.stats.Errors[class]++
		return
	}
	k.stats.Written, k.stats.Bytes, k.stats.Took = time.Now(), n, time.Since(begun)
}

// Stats returns the counts.
func (k *Keeper) Stats() Stats {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.stats
	s.Errors = maps.Clone(s.Errors)
	return s
}

func classOf(err error) Class {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, errQuota), errors.Is(err, syscall.EFBIG):
		return ClassFull
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return ClassRefused
	case errors.Is(err, fs.ErrNotExist):
		return ClassMissing
	}
	return ClassOther
}

// due is how long n bytes should take.
func due(n int64) time.Duration { return time.Duration(float64(n) / Pace * float64(time.Second)) }

// pacer delays writes to keep to Pace.
type pacer struct {
	w     io.Writer
	ctx   context.Context // of one write
	begun time.Time
	n     int64
}

func (p *pacer) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	p.n += int64(n)
	if ahead := due(p.n) - time.Since(p.begun); err == nil && ahead > least && !wait(p.ctx, ahead) {
		err = context.Canceled
	}
	return n, err
}

// least is the shortest pause: shorter ones would only be late.
const least = 10 * time.Millisecond

// wait reports false if ctx ended.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
