package testkit

import (
	"bytes"
	"strings"
	"sync"
)

// Log is a log that tests read. It is safe for concurrent use.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements [io.Writer].
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String is all that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Count is how often s occurs in it.
func (l *Log) Count(s string) int { return strings.Count(l.String(), s) }
