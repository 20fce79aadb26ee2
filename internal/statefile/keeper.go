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
	// Every is the time from one turn to the next, if the turn takes no longer.
	Every = 10 * time.Second
	// Pace is how much of a disk that takes at most, in bytes per second.
	Pace = 4 << 20
)

// Config is what a [Keeper] works with. All of it is required but Every.
type Config struct {
	Path  string                  // of the file, for the log
	Write func(w io.Writer) error // what the file is to have, in pieces
	Log   *slog.Logger
	Every time.Duration // 0 means Every
}

// Keeper keeps a file up to date. Make it with [NewKeeper]. Stats is safe for concurrent
// use with all else.
type Keeper struct {
	config Config

	mu    sync.Mutex // guards what follows
	stats Stats
	bad   Class // of the last turn
}

// Class is why a file was not written.
type Class string

// The classes, and what to do.
const (
	ClassFull    Class = "full"    // the disk, or a quota: make room
	ClassRefused Class = "refused" // no right to write, or read-only: grant it
	ClassMissing Class = "missing" // the directory is gone: make it
	ClassOther   Class = "other"   // see the log
)

// Classes are all of them.
var Classes = [...]Class{ClassFull, ClassRefused, ClassMissing, ClassOther}

// Stats are counts for metrics.
type Stats struct {
	Written time.Time     // when the file was last written with success
	Bytes   int64         // that it has
	Took    time.Duration // that it took, pauses included
	Errors  map[Class]uint64
}

// NewKeeper returns a keeper that has written nothing yet.
func NewKeeper(c Config) *Keeper {
	if c.Every == 0 {
		c.Every = Every
	}
	return &Keeper{config: c, stats: Stats{Errors: map[Class]uint64{}}}
}

// Run writes the file at once, and again and again until ctx ends. It gives up what it is
// writing then.
func (k *Keeper) Run(ctx context.Context, f *File) {
	for pause := time.Duration(0); wait(ctx, pause); {
		begun := time.Now()
		k.write(f, func(w io.Writer) io.Writer { return &pacer{w: w, ctx: ctx, begun: begun} })
		pause = max(k.config.Every-time.Since(begun), least)
	}
}

// Finish writes the file once more, without pauses. Call it when Run has returned.
func (k *Keeper) Finish(f *File) { k.write(f, func(w io.Writer) io.Writer { return w }) }

// write writes the file, and says so if that fails, and when it does no more.
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

// due is how long so many bytes are to take.
func due(n int64) time.Duration { return time.Duration(float64(n) / Pace * float64(time.Second)) }

// pacer lets what was written have its time.
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

// least is how long a pause lasts at least: shorter ones would only be late.
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
