package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/fastlimit/fastlimit/policy"
)

const (
	defaultBudget = 1 << 30

	// checkEvery is the number of lines between two checks of the context.
	checkEvery = 1 << 12
)

// player moves lines from the logs through the order to their consumer.
type player struct {
	c       *ReadConfig
	ctx     context.Context
	engine  *policy.Engine
	rules   []policy.RuleSpec
	to      func(context.Context, *record) error // gets the records in order
	reading Reading
	order   *order
	current record

	// Lines and records have buffers of their own: a line is parsed while earlier
	// records are judged.
	fields  fields            // of the current line
	scratch policy.Scratch    // likewise
	packed  []byte            // likewise: fields as text of a record
	texts   map[string]string // recent values of record.text, shared by records
	seen    []bool            // for each of fields.needs: some request had it
	lines   int               // lines read from all logs

	first, last int64 // Unix µs of the records passed on
}

func newPlayer(ctx context.Context, c *ReadConfig, engine *policy.Engine, rules []policy.RuleSpec, needs needs, to func(context.Context, *record) error) *player {
	return &player{
		c: c, ctx: ctx, engine: engine, rules: rules, to: to,
		order:  &order{budget: cmp.Or(c.Budget, defaultBudget), windowed: c.Stream},
		texts:  map[string]string{},
		fields: fields{needs: needs},
		seen:   make([]bool, len(needs)),
	}
}

// play passes all records of the logs on.
func (p *player) play(logs []Log) error {
	if err := p.read(logs); err != nil {
		return err
	}
	if err := p.drain(); err != nil {
		return err
	}
	p.warn()
	if p.reading.Requests > 0 {
		p.reading.First, p.reading.Last = stampText(p.first), stampText(p.last)
	}
	return nil
}

// read merges the logs by time. Lines within a log are out of order; order sorts
// them.
func (p *player) read(logs []Log) error {
	var all, open []*source
	for _, log := range logs {
		src, err := newLines(log.Reader, p.c.command())
		if err != nil {
			return named(log.Name, err)
		}
		s := &source{name: log.Name, lines: src, parser: parser{Map: p.c.Fields, Needs: p.fields.needs}}
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
			if err := p.pass(r); err != nil {
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
			s.skip(&p.reading, err, b)
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
		p.reading.Warnings = append(p.reading.Warnings, warning)
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
	p.fields.fill(l, p.engine, &p.scratch)
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

// pass hands the next record on. It is kept in the player: given to a function that the
// compiler does not know, a variable would be allocated for each (TestMemoryOfALine).
func (p *player) pass(r record) error {
	if p.reading.Requests == 0 {
		p.first = r.at
	}
	p.reading.Requests++
	p.last = r.at
	p.current = r
	return p.to(p.ctx, &p.current)
}

// drain passes on the records that are left when all logs have been read.
func (p *player) drain() error {
	p.order.end()
	for i := 0; ; i++ {
		if i%checkEvery == 0 {
			if err := p.ctx.Err(); err != nil {
				return err
			}
			if p.c.Judged != nil {
				p.c.Judged(p.reading.Requests, p.reading.Requests+p.order.len())
			}
		}
		r, ok := p.order.pop()
		if !ok {
			break
		}
		if err := p.pass(r); err != nil {
			return err
		}
	}
	if p.c.Judged != nil {
		p.c.Judged(p.reading.Requests, p.reading.Requests)
	}
	p.reading.Late = p.order.late
	return nil
}

// warn adds warnings about rules that could not apply and about incomplete sorting.
func (p *player) warn() {
	p.reading.Warnings = append(p.reading.Warnings, p.fields.needs.lacking(p.rules, p.seen, p.reading.Requests == 0)...)
	if !p.c.Stream && p.order.windowed {
		p.reading.Warnings = append(p.reading.Warnings, fmt.Sprintf(
			"the log does not fit into %d bytes, so it was sorted only within %d s", p.order.budget, windowSeconds))
	}
}
