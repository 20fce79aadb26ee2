// Package accesslog writes a line of JSON for each request that was answered.
//
// Requests never wait for the disk. An entry is formatted into pooled memory and copied, under a lock held
// for that copy, to the buffer being filled; a goroutine writes the full ones, and the rest at most a quarter
// of a second later. There are 16 buffers of 64 KiB: when all are full because the disk is slow, lines are
// dropped and counted, like those that could not be written.
package accesslog

import (
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fastlimit/fastlimit/internal/namedfile"
)

const (
	bufferBytes = 64 << 10
	buffers     = 16
	flushEvery  = 250 * time.Millisecond
	closeWithin = 2 * time.Second // for what is left at the end
)

// Memory is the most that a log takes, in bytes.
const Memory = buffers * bufferBytes

// Stdout is the name for standard output.
const Stdout = "-"

// Log is an access log. Make it with [Open]; all methods are safe for concurrent use.
type Log struct {
	name string
	log  *slog.Logger

	mu      sync.Mutex // guards what follows; held for a copy
	filling *buffer    // nil: none is free
	full    []*buffer
	free    []*buffer

	wake, reopen chan struct{}
	end          chan struct{} // closed by Close
	stopped      chan struct{}
	once         sync.Once
	dropped      atomic.Uint64
	queries      atomic.Bool // see ShowQueries

	// Used only by the goroutine that writes.
	out      io.WriteCloser
	torn     bool // the last line is incomplete
	reported bool // that writing fails has been logged
}

// buffer holds whole lines.
type buffer struct {
	bytes []byte
	lines uint64
}

// Open opens a file to append to, or standard output.
func Open(name string, log *slog.Logger) (*Log, error) {
	out, err := open(name)
	if err != nil {
		return nil, err
	}
	return newLog(name, out, log), nil
}

func newLog(name string, out io.WriteCloser, log *slog.Logger) *Log {
	l := &Log{
		name: name, log: log, out: out, wake: make(chan struct{}, 1), reopen: make(chan struct{}, 1),
		end: make(chan struct{}), stopped: make(chan struct{}),
	}
	for range buffers {
		l.free = append(l.free, &buffer{bytes: make([]byte, 0, bufferBytes)})
	}
	go l.run()
	return l
}

// open does not wait for the reader of a named pipe.
func open(name string) (io.WriteCloser, error) {
	if name == Stdout {
		return keepOpen{os.Stdout}, nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o640)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// keepOpen is an output with other users.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }

// Write adds the line of an entry, or drops it. It allocates only for the pool, and does not wait.
func (l *Log) Write(e *Entry) {
	line := lines.Get().(*[]byte)
	*line = e.append((*line)[:0], l.queries.Load())
	if !l.add(*line) {
		l.dropped.Add(1)
	}
	lines.Put(line)
}

var lines = sync.Pool{New: func() any { b := make([]byte, 0, 1<<10); return &b }}

func (l *Log) add(line []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.filling; b != nil && len(b.bytes)+len(line) > bufferBytes {
		l.full = append(l.full, b)
		l.filling = nil
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
	if l.filling == nil {
		n := len(l.free)
		if n == 0 {
			return false
		}
		l.filling, l.free = l.free[n-1], l.free[:n-1]
	}
	b := l.filling
	b.bytes = append(b.bytes, line...)
	b.lines++
	return true
}

// Dropped returns how many lines were lost because the disk was slow or failed.
func (l *Log) Dropped() uint64 { return l.dropped.Load() }

// ShowQueries sets whether lines include the queries of requests and referers, in which applications put
// secrets. By default they do not.
func (l *Log) ShowQueries(show bool) { l.queries.Store(show) }

// Reopen reopens the file by its name, after writing what was answered before to the old one. It does not
// wait for that.
func (l *Log) Reopen() {
	select {
	case l.reopen <- struct{}{}:
	default: // already asked for
	}
}

// Close writes what is left, for at most a moment, and closes the file. Later lines are dropped.
func (l *Log) Close() {
	l.once.Do(func() { close(l.end) })
	select {
	case <-l.stopped:
	case <-time.After(closeWithin):
	}
}

func (l *Log) run() {
	defer close(l.stopped)
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-l.end:
			l.flush()
			_ = l.out.Close() // there is nobody to report it to
			return
		case <-l.reopen:
			l.flush()
			l.openAgain()
		case <-l.wake:
			l.flush()
		case <-ticker.C:
			l.flush()
		}
	}
}

// flush writes all lines.
func (l *Log) flush() {
	for {
		b := l.next()
		if b == nil {
			return
		}
		l.write(b)
		l.mu.Lock()
		b.bytes, b.lines = b.bytes[:0], 0
		l.free = append(l.free, b)
		l.mu.Unlock()
	}
}

// next takes the oldest buffer with lines.
func (l *Log) next() *buffer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.full) > 0 {
		b := l.full[0]
		l.full = append(l.full[:0], l.full[1:]...)
		return b
	}
	b := l.filling
	l.filling = nil
	return b
}

// write writes a buffer. After an incomplete line it starts a new one.
func (l *Log) write(b *buffer) {
	var err error
	if l.torn {
		if _, err = l.out.Write([]byte{'\n'}); err == nil {
			l.torn = false
		}
	}
	n := 0
	if err == nil {
		n, err = l.out.Write(b.bytes)
	}
	if err == nil {
		if l.reported {
			l.log.Info("the access log is written again", slog.String("file", l.name), slog.Uint64("dropped", l.Dropped()))
		}
		l.reported = false
		return
	}
	whole := uint64(0)
	for i := range n {
		if b.bytes[i] == '\n' {
			whole++
		}
	}
	l.torn = l.torn || n > 0 && b.bytes[n-1] != '\n'
	l.dropped.Add(b.lines - whole)
	if !l.reported {
		l.reported = true
		l.log.Error("the access log cannot be written: lines are dropped", slog.String("file", l.name), slog.String("error", namedfile.Cause(err)))
	}
}

// openAgain keeps the old file if the new one cannot be opened.
func (l *Log) openAgain() {
	out, err := open(l.name)
	if err != nil {
		l.log.Error("the access log could not be reopened: the old file is still written", slog.String("file", l.name), slog.String("error", namedfile.Cause(err)))
		return
	}
	_ = l.out.Close() // everything is written
	l.out, l.torn = out, false
}
