package replay

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/policy"
)

// judge feeds records in order to the policy, and in parallel to the oracle. One goroutine uses it, so
// nothing here is guarded, and all buffers are reused.
type judge struct {
	engine *policy.Engine
	rules  []ruleBook

	scratch policy.Scratch
	rebuilt rebuilt
	key     []byte // of the account being looked up

	// Time of the log and of the limiter, which begins at 0 and leaves out long silences.
	started     bool
	first, last int64                // Unix µs of the log
	now         time.Duration        // the limiter's time, whole µs
	end         func() time.Duration // the last time that the limiter can represent
	limiterTime *fastlimit.ManualClock
	silence     int64 // µs after which every rule has forgotten everything

	report *Report
	denied map[string]*account // clients denied by the deny list, by address
}

// ruleBook is the oracle's state for one rule, and the rule's part of the report, which
// is filled in as records are judged and completed by finish.
type ruleBook struct {
	rule  *fastlimit.Rule
	cost  uint64
	exact exact
	ban   fastlimit.BanPolicy
	tiers []exact // of clients with another limit
	key   []policy.KeyPart

	ignoreCase bool                // of paths in the key
	clients    map[string]*account // by appendKey; nil in shadow mode, which denies nobody
	reported   RuleReport

	entries, sweepAt int // times that logs hold, and the number at which they are swept
}

// minSweep is the number below which sweeping logs is not worthwhile, in times of 8 bytes.
const minSweep = 1 << 14

// newJudge returns a judge at the limiter's time 0. rules are those of lim, in order.
func newJudge(lim *fastlimit.Limiter, limiterTime *fastlimit.ManualClock, engine *policy.Engine, rules []policy.RuleSpec, report *Report) (*judge, error) {
	j := &judge{limiterTime: limiterTime, engine: engine, report: report, denied: map[string]*account{}, end: lim.LastTime}
	plan := lim.Plan()
	longest := plan.Window // in which the filter and the rules forget everything
	for i, r := range lim.Rules() {
		c := r.Config()
		b := ruleBook{rule: r, cost: c.Cost, ban: c.Ban, key: rules[i].Key, ignoreCase: rules[i].Match.IgnoreCase, sweepAt: minSweep}
		longest = max(longest, c.Ban.Within+c.Ban.Max+c.Ban.Memory())
		b.reported = RuleReport{
			Name: c.Name, Mode: c.Mode.String(), Algorithm: c.Algorithm.String(), Rate: c.Rate.String(), Burst: c.Burst,
			Stages: []StageReport{}, ExcessBound: excessBound(&plan.Rules[i]),
		}
		var err error
		if b.exact, err = newExact(c.Algorithm, c); err != nil {
			return nil, err
		}
		limits := []fastlimit.RuleConfig{c}
		for k := range c.Tiers {
			limit := r.Tier(k).Config()
			e, err := newExact(limit.Algorithm, limit)
			if err != nil {
				return nil, err
			}
			b.tiers, limits = append(b.tiers, e), append(limits, limit)
			b.reported.ExcessBound = max(b.reported.ExcessBound, excessBound(&plan.Rules[i].Tiers[k]))
		}
		if c.Mode == fastlimit.Enforce {
			b.clients = map[string]*account{}
		}
		j.rules = append(j.rules, b)
		for _, c := range limits {
			// A rule forgets everything within (2·B + 2)·T plus a margin for sketch cells.
			drain := (2*float64(c.Burst) + 100) / c.Rate.PerSecond()
			longest = max(longest, time.Duration(min(drain, math.MaxInt64/4/1e9)*1e9))
		}
	}
	j.silence = 3 * second * int64(longest/time.Second+1) // long enough for two rotations of the filter
	return j, nil
}

// clock advances the limiter's time to a record's. A gap longer than silence is shortened to it, which no
// rule can notice (TestLongSilence), so that a log of years fits into the limiter's time.
func (j *judge) clock(at int64) error {
	if !j.started {
		j.started, j.first, j.last = true, at, at
		j.limiterTime.SetStart(time.UnixMicro(at))
	}
	gap := time.Duration(min(at-j.last, j.silence)) * time.Microsecond
	if gap > j.end()-j.now {
		return j.tooLong(at)
	}
	j.now += gap
	if at-j.last > j.silence { // windows still begin by the log's time
		j.limiterTime.SetStart(time.UnixMicro(at).Add(-j.now))
	}
	j.last = at
	if j.now > j.end() { // which is closer if windows end first
		return j.tooLong(at)
	}
	return nil
}

// tooLong is the error of a record beyond LastTime, where the limiter panics. Rules that count in
// large ticks reach it after years, see [fastlimit.Limiter.LastTime].
func (j *judge) tooLong(at int64) error {
	if left := j.end() - j.now; left < 0 { // windows end at a wall time
		return fmt.Errorf("the log reaches %s, and these rules can count windows until %s: give them a period of 2.2 s or more",
			time.UnixMicro(at).UTC().Format(time.DateOnly), time.UnixMicro(at).Add(left).UTC().Format(time.DateOnly))
	}
	return fmt.Errorf("the log covers %s to %s, which is longer than the %v that these rules can keep track of: replay it in parts",
		time.UnixMicro(j.first).UTC().Format(time.DateOnly), time.UnixMicro(at).UTC().Format(time.DateOnly), j.end().Round(time.Hour))
}

// record judges one record and counts the outcome. Records must come in the order of
// their times.
func (j *judge) record(ctx context.Context, r *record) error {
	if err := j.clock(r.at); err != nil {
		return err
	}
	q := j.rebuilt.from(r)
	j.limiterTime.Set(j.now)
	v := j.engine.Decide(ctx, q, &j.scratch)
	j.report.Requests++
	if v.Decision.Allowed {
		j.report.Allowed++
	} else {
		j.report.Denied++
	}
	// A listed client has no rule and no oracle: the deny list is right by definition.
	if v.List == policy.ListDeny {
		name := q.Client.String()
		a := lookup(j.denied, []byte(name))
		a.requests++
		a.key = policy.KeyText{Text: name, Parts: []string{name}}
		return nil
	}
	for _, applied := range j.scratch.Applied() {
		j.ask(applied, v)
	}
	return nil
}

// ask reports a request to the oracle of the rule that applied to it. The key's text is made only for
// denied clients, since only those are reported.
func (j *judge) ask(applied fastlimit.Charge, v policy.Verdict) {
	b := &j.rules[(*engine.Rule)(applied.Rule).Index()]
	if b.clients == nil { // a shadow rule, whose denials have no effect
		return
	}
	j.key = b.appendKey(j.key[:0], j.rebuilt.request.Client, &j.rebuilt.fields)
	a := lookup(b.clients, j.key)
	a.limit = b.limit(applied.Rule)
	at := b.time(j)
	a.advance(a.limit, at)
	outcome := admitted
	switch {
	case v.Decision.Allowed:
	case (*engine.Rule)(v.Rule).Base() == (*engine.Rule)(b.rule):
		outcome = deniedHere
		if a.key.Text == "" {
			a.key = j.engine.KeyText(b.rule, &j.rebuilt.request)
		}
	default:
		outcome = deniedElsewhere
	}
	if p := &b.ban; p.After > 0 {
		outcome = a.judgeBan(p, b.cost, outcome, v.Decision, j.now)
	}
	held := a.entries()
	b.reported.Excess = max(b.reported.Excess, a.judge(a.limit, b.cost, outcome))
	b.entries += a.entries() - held
	b.sweep(at)
}

// limit returns the limit of a client who is charged to the rule or a tier of it. A client always has the
// same.
func (b *ruleBook) limit(charged *fastlimit.Rule) *exact {
	if i := (*engine.Rule)(charged).TierIndex(); i >= 0 {
		return &b.tiers[i]
	}
	return &b.exact
}

// time returns the time by which the rule's oracle counts.
func (b *ruleBook) time(j *judge) int64 {
	if b.exact.unixTime() {
		return max(j.last, 0) // as the limiter reads a time before 1970
	}
	return j.now.Microseconds()
}

// sweep drops times of logs that no longer count, even of clients that never return. It runs each time that
// as many have been added as were left and as there are clients to look at, so its cost per request is small,
// and memory is bounded by what counts.
func (b *ruleBook) sweep(at int64) {
	if b.entries < b.sweepAt {
		return
	}
	b.entries = 0
	for _, a := range b.clients {
		a.expire(a.limit, at)
		b.entries += a.entries()
	}
	b.sweepAt = max(minSweep, 2*b.entries, 2*len(b.clients))
}

// appendKey appends the client's key under the rule, each part preceded by its
// length. It is built from the request rather than from the limiter's digest, so
// that a collision of digests shows as a false denial.
func (b *ruleBook) appendKey(dst []byte, client netip.Addr, f *fields) []byte {
	for _, part := range b.key {
		v := f.get(part.Kind, part.Name) // nil for global: all clients share one empty key
		if part.Kind == policy.KeyIP {
			c := b.rule.Config()
			bits := c.IPv6Prefix
			if client.Is4() {
				bits = c.IPv4Prefix
			}
			prefix, err := client.Prefix(bits)
			if err != nil {
				panic("BUG: replay: " + err.Error()) // bits were checked by the plan
			}
			addr := prefix.Addr().As16()
			v = addr[:]
		}
		if part.Kind == policy.KeyPath && b.ignoreCase {
			v = policy.AppendFolded(nil, v)
		}
		dst = binary.AppendUvarint(dst, uint64(len(v)))
		dst = append(dst, v...)
	}
	return dst
}

// lookup returns the account of a key, creating it if necessary. It allocates a
// string only for a new client.
func lookup(m map[string]*account, key []byte) *account {
	a, ok := m[string(key)]
	if !ok {
		a = new(account)
		m[string(key)] = a
	}
	return a
}

// finish completes the report.
func (j *judge) finish() {
	r := j.report
	for i := range j.rules {
		b := &j.rules[i]
		b.reported.addStages(b.rule.Stats())
		for _, a := range b.clients { // in any order: sortClients comes last
			b.reported.ExactDenied += a.exactDenied
			r.FalseDenials += a.falseDenied
			if a.denied > 0 {
				r.Clients = append(r.Clients, Client{
					Rule: b.reported.Name, Key: a.key.Text, Parts: a.key.Parts, Requests: a.requests, Denied: a.denied,
					OverLimit: a.falseDenied == 0, ExactDenied: a.exactDenied,
				})
			}
		}
		r.Rules = append(r.Rules, b.reported)
	}
	for _, a := range j.denied {
		r.Clients = append(r.Clients, Client{Rule: denyList, Key: a.key.Text, Parts: a.key.Parts, Requests: a.requests, Denied: a.requests})
	}
	r.sortClients()
}
