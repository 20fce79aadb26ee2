package suggest

import (
	"cmp"
	"slices"

	"github.com/fastlimit/fastlimit/policy"
)

// client is a client of a table.
type client struct {
	key  string
	seen *arrivals
	need uint64 // at the current rate

	suspect bool // it is taken for an attacker beforehand
}

// analysis computes the rows of one table.
type analysis struct {
	clients []client
	counted uint64   // their requests
	sorted  []uint64 // the needs at the current rate, ascending
	others  []uint64 // those of non-suspects; sorted, if nobody is a suspect
	spare   Percent
	crowd   bool // the key names clients, some of which may attack

	suspects int // of the clients
}

// analyze suggests a limit for the clients of the table; span is the time from the first
// request of the log to the last, in µs.
func (t *table) analyze(span int64, spare Percent, suspects []string) Key {
	k := Key{
		Rule: t.spec.Limit.Name, Key: keyParts(&t.spec), Paths: t.spec.Match.Paths, name: keyName(&t.spec),
		Requests: t.requests, Clients: len(t.clients), Sampled: t.mask + 1, Rows: []Row{}, Attackers: []Attacker{},
	}
	a := &analysis{spare: spare, crowd: namesClients(t.spec.Key), clients: make([]client, 0, len(t.clients)), sorted: make([]uint64, 0, len(t.clients))}
	for key, seen := range t.clients { // in any order: only sorted needs are used until attackers are named
		suspect := len(suspects) > 0 && slices.Contains(suspects, t.keyText(key).Text())
		a.clients = append(a.clients, client{key: key, seen: seen, suspect: suspect})
		if suspect {
			a.suspects++
		}
		a.counted += seen.all
	}
	if a.suspects == len(a.clients) { // then there is nobody to spare
		a.suspects = 0
		for i := range a.clients {
			a.clients[i].suspect = false
		}
	}
	k.Counted, k.suspects = a.counted, a.suspects
	if len(a.clients) == 0 {
		return k
	}
	k.Rows = a.rows(span)
	k.chosen = best(k.Rows)
	k.Chosen = k.Rows[k.chosen].Rate
	k.Attackers = a.attackers(t, &k.Rows[k.chosen])
	return k
}

// rows computes the rates that the log can say something about. The slowest leaks ten requests during the
// log: slower ones would just count requests. The fastest is the first from 1/s at which nobody needs more
// than it sent in one instant: a faster one spares nobody else.
func (a *analysis) rows(span int64) (rows []Row) {
	const leaks = 10
	for _, p := range rates() {
		if p.unit > second && p.unit > uint64(span)/leaks {
			continue
		}
		settled := a.needs(&p)
		rows = append(rows, a.row(&p))
		if settled && p.unit <= second {
			break
		}
	}
	return rows
}

// needs computes every client's need at a rate. settled means that no higher rate would change any.
func (a *analysis) needs(p *pace) (settled bool) {
	settled = true
	a.sorted, a.others = a.sorted[:0], nil
	for i := range a.clients {
		c := &a.clients[i]
		c.need = p.need(c.seen)
		a.sorted = append(a.sorted, c.need)
		if a.suspects > 0 && !c.suspect {
			a.others = append(a.others, c.need)
		}
		settled = settled && c.need == atOnce(c.seen)
	}
	slices.Sort(a.sorted)
	if slices.Sort(a.others); a.suspects == 0 {
		a.others = a.sorted
	}
	return settled
}

// row sums up the needs at a rate.
func (a *analysis) row(p *pace) Row {
	n := len(a.sorted)
	at := func(share Percent) uint64 { return a.sorted[share.of(n)-1] }
	r := Row{
		Rate: p.rate.String(), pace: *p,
		P50: at(50 * percent), P90: at(90 * percent), P99: at(99 * percent), P999: at(99*percent + percent*9/10), Max: at(hundred),
	}
	if a.crowd {
		r.Attackers = attackers(a.others)
	}
	r.Needed = a.others[a.spare.of(len(a.others)-r.Attackers)-1]
	r.Attackers += a.suspects
	r.Burst = round(r.Needed)
	r.drain, r.InAMinute = p.drain(r.Burst), p.minute(r.Burst)
	for i := range a.clients {
		if c := &a.clients[i]; c.need > r.Burst {
			r.ClientsShed++
			r.RequestsShed += p.shed(c.seen, r.Burst)
		}
	}
	r.ClientsShare, r.RequestsShare = float64(r.ClientsShed)/float64(n), float64(r.RequestsShed)/float64(a.counted)
	return r
}

// attackers returns those that stand out at the rate of a row. Only they are sorted: sorting all clients
// would be most of the work on a log of many.
func (a *analysis) attackers(t *table, r *Row) []Attacker {
	all := []Attacker{}
	if r.Attackers == 0 {
		return all
	}
	a.needs(&r.pace)
	crowd := a.others[len(a.clients)-r.Attackers-1] // the most that others need, which is less
	var out []client
	for _, c := range a.clients {
		if c.suspect || c.need > crowd {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(x, y client) int { return cmp.Or(cmp.Compare(y.need, x.need), cmp.Compare(x.key, y.key)) })
	for _, c := range out {
		text := t.keyText(c.key)
		all = append(all, Attacker{Key: text.Text(), Parts: text.Parts(), Requests: c.seen.all, Share: float64(c.seen.all) / float64(a.counted), Needed: c.need})
	}
	return all
}

// keyParts returns a rule's key as in a configuration file, one text per part.
func keyParts(s *policy.RuleSpec) (parts []string) {
	for _, p := range s.Key {
		parts = append(parts, keyPart(p, s))
	}
	return parts
}
