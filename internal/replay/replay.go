package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/policy"
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

// Run reads a log, plain or gzip, and judges it. It fails if the log cannot be
// read to its end, if the rules are invalid, or with the error of ctx.
func Run(ctx context.Context, log io.Reader, c Config) (*Report, error) {
	if c.Limiter.Secret == ([32]byte{}) {
		c.Limiter.Secret = secret
	}
	if c.Budget == 0 {
		c.Budget = defaultBudget
	}
	// A log is judged by one node, at the log's own time: nobody can be asked.
	c.Limiter.Store, c.Limiter.StoreTimeout = nil, 0
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
	}
	if p.judge, err = newJudge(lim, engine, c.Policy.Rules, p.report); err != nil {
		return nil, err
	}
	p.judge.needs, p.report.Warnings = neededBy(c.Policy.Rules)
	if err := p.read(log); err != nil {
		return nil, err
	}
	if err := p.drain(); err != nil {
		return nil, err
	}
	p.warn()
	p.judge.finish()
	return p.report, nil
}

// player moves lines from the log through the order to the judge.
type player struct {
	config *Config
	ctx    context.Context
	report *Report
	judge  *judge
	order  *order

	parser Parser
	fields fields
	buf    []byte            // canonical fields
	packed []byte            // needed fields
	texts  map[string]string // recent values of record.text, shared by records
	hosts  bool              // there was a request with a host
}

func (p *player) read(log io.Reader) error {
	src, err := newLines(log)
	if err != nil {
		return err
	}
	for {
		if src.n%checkEvery == 0 {
			if err := p.ctx.Err(); err != nil {
				return err
			}
		}
		b, err := src.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, ErrLineTooBig):
			p.report.skip(src.n, err, b)
			continue
		case err != nil:
			return err
		}
		l, err := p.parser.Parse(b)
		if err != nil {
			p.report.skip(src.n, err, b)
			continue
		}
		p.order.push(p.record(&l, int64(src.n)))
		for r, ok := p.order.pop(); ok; r, ok = p.order.pop() {
			p.judge.record(p.ctx, &r)
		}
	}
}

func (p *player) record(l *Line, seq int64) record {
	n := &p.judge.needs
	p.buf = p.fields.fill(l, n, p.buf[:0])
	p.hosts = p.hosts || p.fields.host != nil
	p.packed = p.fields.pack(p.packed[:0], n)
	return record{at: l.Time, seq: seq, addr: l.Client.As16(), text: p.intern(p.packed)}
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
	rest := p.order.finish()
	for i := range rest {
		if i%checkEvery == 0 {
			if err := p.ctx.Err(); err != nil {
				return err
			}
			if p.config.Judged != nil {
				p.config.Judged(p.report.Requests, p.report.Requests+len(rest)-i)
			}
		}
		p.judge.record(p.ctx, &rest[i])
	}
	if p.config.Judged != nil {
		p.config.Judged(p.report.Requests, p.report.Requests)
	}
	p.report.Late = p.order.late
	return nil
}

func (p *player) warn() {
	if !p.config.Stream && p.order.heap {
		p.report.Warnings = append(p.report.Warnings, fmt.Sprintf(
			"the log does not fit %d bytes and was not sorted as a whole but within %d s", p.config.Budget, windowSeconds))
	}
	if names := needsHost(p.config.Policy.Rules); len(names) > 0 && !p.hosts && p.report.Requests > 0 {
		p.report.Warnings = append(p.report.Warnings, fmt.Sprintf(
			"rules that need a host do not apply: no line has one, as vhost_combined would: %s", strings.Join(names, ", ")))
	}
}
