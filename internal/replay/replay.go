package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// Config configures a replay. The zero value has no rules and is rejected.
type Config struct {
	// Limiter configures the rules, Policy everything else that decides; their
	// rules are in the same order. Required.
	Limiter fastlimit.Config
	Policy  policy.Settings

	// Stream sorts within a window of two minutes instead of sorting everything.
	Stream bool

	// Budget is the number of bytes of records held for sorting; peak memory is up
	// to three times that. A file with more is sorted within a window. 0 means
	// 1 GiB.
	Budget int64

	// Fields says where lines of JSON have their values; nil means Caddy's format.
	Fields FieldMap

	// Judged is called from time to time with the number of requests judged, and
	// the number of all requests as far as it is known. Optional.
	Judged func(done, all int)
}

const (
	defaultBudget = 1 << 30

	// checkEvery is the number of lines between two checks of the context.
	checkEvery = 1 << 12
)

// secret is fixed, so that runs over the same log give equal reports. An attacker who
// knows it can at most craft a log with colliding digests, which slows a replay down.
var secret = [32]byte{'f', 'a', 's', 't', 'l', 'i', 'm', 'i', 't', ' ', 'r', 'e', 'p', 'l', 'a', 'y'}

// Log is one access log: a file, or a stream.
type Log struct {
	Name   string // for messages
	Reader io.Reader
}

// Run reads logs, plain or gzip, and judges them. It merges them by time, always
// reading on in the log that is furthest behind, so the logs may be one server's
// rotated files, in any order, or those of several servers. It fails if a log cannot
// be read to its end, if no line is one of an access log, if the rules are invalid,
// or with the error of ctx.
func Run(ctx context.Context, logs []Log, c Config) (*Report, error) {
	if c.Limiter.Secret == ([32]byte{}) {
		c.Limiter.Secret = secret
	}
	if c.Budget == 0 {
		c.Budget = defaultBudget
	}
	if err := c.Fields.Check(); err != nil {
		return nil, err
	}
	// A log is judged by this process alone in the log's own time: a shared store
	// has neither that time nor the state of then (TestRedisIsNotAsked).
	c.Limiter.Store, c.Limiter.Shared, c.Limiter.StoreTimeout, c.Limiter.Clock = nil, false, 0, new(fastlimit.ManualClock)
	lim, err := fastlimit.New(c.Limiter)
	if err != nil {
		return nil, err
	}
	engine, err := policy.New(lim, c.Policy)
	if err != nil {
		return nil, err
	}
	// Lines and records have buffers of their own: a line is parsed while earlier records
	// are judged.
	p := &player{
		config: &c, ctx: ctx,
		report: &Report{Clients: []Client{}},
		order:  &order{budget: c.Budget, windowed: c.Stream},
		texts:  map[string]string{},
		fields: fields{needs: neededBy(c.Policy.Rules)},
	}
	if p.judge, err = newJudge(lim, c.Limiter.Clock, engine, c.Policy.Rules, p.report); err != nil {
		return nil, err
	}
	p.judge.fields.needs = p.fields.needs
	p.seen = make([]bool, len(p.fields.needs))
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

// player moves lines from the logs through the order to the judge.
type player struct {
	config *Config
	ctx    context.Context
	report *Report
	judge  *judge
	order  *order

	fields  fields            // of the current line
	scratch policy.Scratch    // likewise
	packed  []byte            // likewise: fields as text of a record
	texts   map[string]string // recent values of record.text, shared by records
	seen    []bool            // for each of fields.needs: some request had it
	lines   int               // lines read from all logs
}

// read merges the logs by time. Lines within a log are out of order; order sorts
// them.
func (p *player) read(logs []Log) error {
	var all, open []*source
	for _, log := range logs {
		src, err := newLines(log.Reader)
		if err != nil {
			return named(log.Name, err)
		}
		s := &source{name: log.Name, lines: src, parser: parser{Map: p.config.Fields, Needs: p.fields.needs}}
		all = append(all, s)
		// The first line tells how far behind the log is.
		if more, err := p.advance(s); err != nil {
			return err
		} else if more {
			open = append(open, s)
		}
	}
	// The log that is furthest behind is read on, so that lines of all logs meet in the
	// window of order at about the same time.
	for seq := int64(0); len(open) > 0; seq++ {
		s := slices.MinFunc(open, func(a, b *source) int { return cmp.Compare(a.next.at, b.next.at) })
		s.next.seq = seq
		p.order.push(s.next)
		for r, ok := p.order.pop(); ok; r, ok = p.order.pop() {
			if err := p.judge.record(p.ctx, &r); err != nil {
				return err
			}
		}
		if more, err := p.advance(s); err != nil {
			return err
		} else if !more {
			open = slices.DeleteFunc(open, func(other *source) bool { return other == s })
		}
	}
	return p.checkRead(all)
}

// advance reads up to the next line that can be parsed, and counts those skipped;
// more is false at the end of the log.
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
			return false, nil
		case err != nil && !errors.Is(err, errLineTooBig):
			return false, named(s.name, err)
		}
		var l logLine
		if err == nil {
			l, err = s.parser.parse(b)
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

// checkRead fails if no log had a line that could be parsed, unless all were empty.
// If only some logs had none, it adds warnings that name them.
func (p *player) checkRead(all []*source) error {
	some := slices.ContainsFunc(all, func(s *source) bool { return s.read > 0 })
	for _, s := range all {
		if s.read > 0 {
			continue
		}
		warning := cmp.Or(s.name, "the log") + " is empty"
		if s.first != nil {
			err := named(s.name, fmt.Errorf("no line can be read; line %d: %s: %s; accepted are %s", s.first.Line, s.first.Reason, s.first.Text, formats))
			if !some {
				return err
			}
			warning = err.Error()
		}
		p.report.Warnings = append(p.report.Warnings, warning)
	}
	return nil
}

func named(name string, err error) error {
	if name == "" {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// record reduces a line to what is kept of it until it is judged.
func (p *player) record(l *logLine) record {
	p.fields.fill(l, p.judge.engine, &p.scratch)
	for i, v := range p.fields.values {
		p.seen[i] = p.seen[i] || v != nil
	}
	p.packed = p.fields.pack(p.packed[:0])
	return record{at: l.Time, addr: l.Client.As16(), text: p.intern(p.packed)}
}

// intern makes records with equal text share it, so that memory grows with the number
// of distinct texts. It forgets all of them now and then, which bounds the map and
// costs a second copy of those that recur.
func (p *player) intern(b []byte) string {
	const most = 1 << 16 // texts in the map
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

// drain judges the records that are left when all logs have been read.
func (p *player) drain() error {
	p.order.end()
	for i := 0; ; i++ {
		if i%checkEvery == 0 {
			if err := p.ctx.Err(); err != nil {
				return err
			}
			if p.config.Judged != nil {
				p.config.Judged(p.report.Requests, p.report.Requests+p.order.len())
			}
		}
		r, ok := p.order.pop()
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

// warn adds warnings about rules that could not apply and about incomplete sorting.
func (p *player) warn() {
	p.report.Warnings = append(p.report.Warnings, p.fields.needs.lacking(p.config.Policy.Rules, p.seen, p.report.Requests == 0)...)
	if !p.config.Stream && p.order.windowed {
		p.report.Warnings = append(p.report.Warnings, fmt.Sprintf(
			"the log does not fit %d bytes and was not sorted as a whole but within %d s", p.config.Budget, windowSeconds))
	}
}
