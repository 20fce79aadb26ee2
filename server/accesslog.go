package server

import (
	"errors"
	"fmt"

	"github.com/fastlimit/fastlimit/internal/namedfile"
	"github.com/fastlimit/fastlimit/server/internal/accesslog"
)

// openAccessLog returns nil if there is no access log.
func (c *Config) openAccessLog() (*accesslog.Log, error) {
	if c.AccessLog.File == "" {
		return nil, nil
	}
	l, err := accesslog.Open(c.AccessLog.File, c.Logger)
	if err != nil {
		var p problems
		p.add("AccessLog.File", fmt.Sprintf("%q cannot be opened: %s", c.AccessLog.File, namedfile.Cause(err)), "name a file that fastlimit may write, in a directory that exists")
		return nil, errors.Join(p...)
	}
	l.ShowQueries(c.AccessLog.Queries)
	return l, nil
}

// ReopenAccessLog reopens the file of the access log by its name, after somebody has renamed it. Requests
// that were answered before are in the old one.
func (s *Server) ReopenAccessLog() {
	if s.access != nil {
		s.access.Reopen()
	}
}

// closeAccessLog writes what is left.
func (s *Server) closeAccessLog() {
	if s.access != nil {
		s.access.Close()
	}
}

// droppedLines returns how many lines the access log has lost.
func (s *Server) droppedLines() uint64 {
	if s.access == nil {
		return 0
	}
	return s.access.Dropped()
}
