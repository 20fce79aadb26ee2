package replay

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/fastlimit/fastlimit/policy"
)

// ReadConfig says how logs are read. The zero value is ready to use.
type ReadConfig struct {
	// Stream sorts within a window of two minutes instead of sorting everything.
	Stream bool

	// Budget is the number of bytes of records held for sorting; peak memory is up
	// to three times that. A file with more is sorted within a window. 0 means
	// 1 GiB.
	Budget int64

	// Fields says where lines of JSON have their values; nil means those of Caddy and fastlimit.
	Fields FieldMap

	// Judged is called from time to time with the number of requests judged, and
	// the number of all requests as far as it is known. Optional.
	Judged func(done, all int)

	// Command is the subcommand that a message tells the user to pipe a log into. ""
	// means replay.
	Command string
}

func (c *ReadConfig) command() string { return "fastlimit " + cmp.Or(c.Command, "replay") }

// Log is one access log: a file, or a stream.
type Log struct {
	Name   string // for messages
	Reader io.Reader
}

// Reading summarizes the logs.
type Reading struct {
	Requests     int    // lines that could be parsed
	Skipped      int    // lines that could not
	Late         int    // lines counted later than their time
	First, Last  string // times, RFC 3339; "" if there was no request
	SkippedLines []Skipped
	Warnings     []string
}

// Read reads logs as [Run] does, and calls each with every request in the order of their times, at in Unix
// microseconds. engine is made from rules, which determine what is kept of a line: the request has only the
// fields that they look at. It is valid until each returns. Read fails as Run does, and with the error of
// each.
func Read(ctx context.Context, logs []Log, engine *policy.Engine, rules []policy.RuleSpec, c ReadConfig, each func(at int64, r *policy.Request) error) (*Reading, error) {
	if err := c.Fields.Check(); err != nil {
		return nil, err
	}
	needs := neededBy(rules)
	b := rebuilt{fields: fields{needs: needs}}
	p := newPlayer(ctx, &c, engine, rules, needs, func(_ context.Context, r *record) error { return each(r.at, b.from(r)) })
	if err := p.play(logs); err != nil {
		return nil, err
	}
	return &p.reading, nil
}

// stampText formats a time for reports.
func stampText(at int64) string { return time.UnixMicro(at).UTC().Format(time.RFC3339Nano) }
