package main

import (
	"io"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// logSink is where the log of a server goes. A reader that went away ends
// neither the process nor a request: the lines are dropped and counted. Safe for
// concurrent use if its writer is.
type logSink struct {
	io.Writer
	lost atomic.Uint64
}

// newLogSink keeps SIGPIPE from ending the process, which is what Go does where
// stdout or stderr is a pipe without a reader. Commands whose output is read by
// others, such as replay in front of head, should end by it.
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
