package main

import (
	"io"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// logSink takes the log of a server. If the log's reader has gone away, lines are
// dropped and counted; neither the process nor a request fails. Operators see the count
// as fastlimit_log_lines_lost_total. Safe for concurrent use if its writer is.
type logSink struct {
	io.Writer
	lost atomic.Uint64
}

// newLogSink ignores SIGPIPE, by which Go ends a process that writes to stdout or
// stderr when the pipe has no reader. Commands whose output is piped, such as
// replay | head, should end by it, so only serve calls this.
func newLogSink(w io.Writer) *logSink {
	signal.Ignore(syscall.SIGPIPE)
	return &logSink{Writer: w}
}

// Write implements io.Writer. It never fails: there is nobody to tell.
func (s *logSink) Write(line []byte) (int, error) {
	if _, err := s.Writer.Write(line); err != nil {
		s.lost.Add(1)
	}
	return len(line), nil
}
