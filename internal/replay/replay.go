package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// Config says how to replay a log. The zero value replays under no rules and
// is rejected.
type Config struct {
	// Limiter is the configuration of the rules, Policy what else decides;
	// their rules are in the same order. Required.
	Limiter fastlimit.Config
	Policy  policy.Settings

	// Stream judges with a window of two minutes instead of sorting all.
	Stream bool

	// Budget is the number of bytes of records to hold for sorting; the peak
	// is up to three times that. More makes a larger file be sorted
	// completely. 0 means 1 GiB.
	Budget int64

	// Fields are where JSON lines have what is asked of them; nil is where
	// Caddy has it.
	Fields FieldMap

	// Judged is called now and then with the number of requests judged and
	// that of all requests, as far as it is known. Optional.
	Judged func(done, all int)
}

const (
	defaultBudget = 1 << 30

	// checkEvery is the number of lines between looks at the context.
	checkEvery = 1 << 12
)

// secret makes runs over the same log agree to the last count. A log cannot
// be written by who knows it to anybody's harm but slowness.
var secret = [32]byte{'f', 'a', 's', 't', 'l', 'i', 'm', 'i', 't', ' ', 'r', 'e', 'p', 'l', 'a', 'y'}

// Log is one access log: a file, or a stream.
type Log struct {
	Name   string // for messages
	Reader io.Reader
}

// Run reads a log, plain or gzip, and judges it. It fails if the log cannot be
// read to its end, if no line of it is one of an access log ([NoLinesError]), if the
// rules are invalid, or with the error of ctx.
func Run(ctx context.Context, log io.Reader, c Config) (*Report, error) {
	return RunAll(ctx, []Log{{Reader: log}}, c)
}

// RunAll is Run over several logs, which it reads side by side, always on with
// the one that is behind in time: files of one server that was rotated, in any
// order, or of several servers.
func RunAll(ctx context.Context, logs []Log, c Config) (*Report, error) {
	if c.Limiter.Secret == ([32]byte{}) {
		c.Limiter.Secret = secret
	}
	if c.Budget == 0 {
		c.Budget = defaultBudget
	}
	if err := c.Fields.check(); err != nil {
		return nil, err
	}
	// A log is judged by one node, at the log's own time: nobody can be asked.
	c.Limiter.Store, c.Limiter.Shared, c.Limiter.StoreTimeout, c.Limiter.Clock = nil, false, 0, new(fastlimit.ManualClock)
	lim, err := fastlimit.New(c.Limiter)
	if err != nil {
		return nil, err
	}
	engine, err := policy.New(lim, c.Policy)
	if err != nil {
		return nil, err
	}
	p := &player{
		config: &c, ctx: ctx,
		report: &Report{Clients: []Client{}},
		order:  newOrder(c.Budget, c.Stream),
		texts:  map[string]string{},
		needs:  neededBy(c.Policy.Rules),
	}
	if p.judge, err = newJudge(lim, c.Limiter.Clock, engine, c.Policy.Rules, p.report); err != nil {
		return nil, err
	}
	p.judge.needs = p.needs
	p.seen = make([]bool, len(p.needs.names))
	if err := p.read(logs); err != nil {
		return nil, err
	}
	if err := p.drain(); err != nil {
		return nil, err
	}
	p.warn()
	p.judge.finish()
	return p.report, nil
}

// NoLinesError tells that a log has lines, and none that can be read.
type NoLinesError struct{ First Skipped }

// Error names the first line and the formats.
func (e *NoLinesError) Error() string {
	return fmt.Sprintf("replay: no line can be read; line %d: %s: %s; accepted are %s", e.First.Line, e.First.Reason, e.First.Text, Formats)
}

// player moves lines from the logs through the order to the judge.
type player struct {
	config *Config
	ctx    context.Context
	report *Report
	judge  *judge
	order  *order
	needs  *needs

	fields  fields
	scratch policy.Scratch    // of the line under way
	packed  []byte            // needed fields
	texts   map[string]string // recent values of record.text, shared by records
	hosts   bool              // there was a request with a host
	seen    []bool            // for each of needs.names, that there was one
	lines   int               // read of all logs
	empty   []string          // names of logs without a line
	unread  []*Skipped        // the first lines of logs without one that could be read
}

// source is a log that is being read, and the record of its next line.
type source struct {
	name   string
	lines  *lines
	parser Parser
	next   record
	first  *Skipped // the first line that could not be read
	read   int      // lines that could
}

// read merges the logs by time. Within a log lines are out of order, which is
// for order to mend.
func (p *player) read(logs []Log) error {
	var open []*source
	for _, log := range logs {
		src, err := newLines(log.Reader)
		if err != nil {
			return named(log.Name, err)
		}
		s := &source{name: log.Name, lines: src, parser: Parser{Map: p.config.Fields, Names: p.needs.names}}
		more, err := p.advance(s)
		if err != nil {
			return err
		}
		if more {
			open = append(open, s)
		}
	}
	for seq := int64(0); len(open) > 0; seq++ {
		at := 0
		for i := range open {
			if open[i].next.at < open[at].next.at {
				at = i
			}
		}
		s := open[at]
		s.next.seq = seq
		p.order.push(s.next)
		for r, ok := p.order.pop(); ok; r, ok = p.order.pop() {
			if err := p.judge.record(p.ctx, &r); err != nil {
				return err
			}
		}
		more, err := p.advance(s)
		if err != nil {
			return err
		}
		if !more {
			open = slices.Delete(open, at, at+1)
		}
	}
	return p.noLines(len(logs))
}

// advance reads up to the next line of an access log; more is false at the end.
func (p *player) advance(s *source) (more bool, err error) {
	for {
		if p.lines++; p.lines%checkEvery == 0 {
			if err := p.ctx.Err(); err != nil {
				return false, err
			}
		}
		b, err := s.lines.next()
		switch {
		case errors.Is(err, io.EOF):
			p.end(s)
			return false, nil
		case err != nil && !errors.Is(err, ErrLineTooBig):
			return false, named(s.name, err)
		}
		var l Line
		if err == nil {
			l, err = s.parser.Parse(b)
		}
		if err != nil {
			s.skip(p.report, err, b)
			continue
		}
		s.read++
		s.next = p.record(&l)
		return true, nil
	}
}

func (s *source) skip(r *Report, reason error, text []byte) {
	line := newSkipped(s.name, s.lines.n, reason, text)
	if s.first == nil {
		s.first = &line
	}
	r.skip(line)
}

// end notes what a log lacked.
func (p *player) end(s *source) {
	switch {
	case s.read > 0:
	case s.first == nil:
		p.empty = append(p.empty, s.name)
	default:
		p.unread = append(p.unread, s.first)
	}
}

// noLines fails if there were lines and none could be read. Of several logs,
// those are named.
func (p *player) noLines(logs int) error {
	for _, first := range p.unread {
		err := named(first.File, &NoLinesError{*first})
		if logs == 1 || len(p.unread)+len(p.empty) == logs {
			return err
		}
		p.report.Warnings = append(p.report.Warnings, err.Error())
	}
	for _, name := range p.empty {
		p.report.Warnings = append(p.report.Warnings, cmp.Or(name, "the log")+" is empty")
	}
	return nil
}

func named(name string, err error) error {
	if name == "" {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

func (p *player) record(l *Line) record {
	p.fields.fill(l, p.needs, p.judge.engine, &p.scratch)
	p.hosts = p.hosts || p.fields.host != nil
	for i, v := range p.fields.values {
		p.seen[i] = p.seen[i] || v != nil
	}
	p.packed = p.fields.pack(p.packed[:0], p.needs)
	return record{at: l.Time, addr: l.Client.As16(), text: p.intern(p.packed)}
}

// intern makes records with equal text share it.
func (p *player) intern(b []byte) string {
	const most = 1 << 16 // recent texts are the likely ones
	if len(b) == 0 {
		return ""
	}
	s, ok := p.texts[string(b)]
	if !ok {
		if len(p.texts) == most {
			clear(p.texts)
		}
		s = string(b)
		p.texts[s] = s
	}
	return s
}

// drain judges what is left at the end of the log.
func (p *player) drain() error {
	p.order.finish()
	for i := 0; ; i++ {
		if i%checkEvery == 0 {
			if err := p.ctx.Err(); err != nil {
				return err
			}
			if p.config.Judged != nil {
				p.config.Judged(p.report.Requests, p.report.Requests+p.order.len())
			}
		}
		r, ok := p.order.next()
		if !ok {
			break
		}
		if err := p.judge.record(p.ctx, &r); err != nil {
			return err
		}
	}
	if p.config.Judged != nil {
		p.config.Judged(p.report.Requests, p.report.Requests)
	}
	p.report.Late = p.order.late
	return nil
}

func (p *player) warn() {
	p.report.Warnings = append(p.report.Warnings, p.needs.lacking(p.config.Policy.Rules, p.seen)...)
	if !p.config.Stream && p.order.heap {
		p.report.Warnings = append(p.report.Warnings, fmt.Sprintf(
			"the log does not fit %d bytes and was not sorted as a whole but within %d s", p.config.Budget, windowSeconds))
	}
	if names := needsHost(p.config.Policy.Rules); len(names) > 0 && !p.hosts && p.report.Requests > 0 {
		p.report.Warnings = append(p.report.Warnings, fmt.Sprintf(
			"rules that need a host do not apply: no line has one, as vhost_combined and JSON would: %s", strings.Join(names, ", ")))
	}
}
