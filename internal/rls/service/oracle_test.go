package service

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/rls/count"
	"github.com/fastlimit/fastlimit/internal/rls/descriptor"
	"github.com/fastlimit/fastlimit/internal/rls/stats"
)

var oracleRequests = flag.Int("oracle", 100_000, "requests that TestOracle decides")

// oracle is the service by the words of its description: a list of limits and a map of
// windows. It shares no code with the service.
type oracle struct {
	rules []rule
	count map[string]uint64
	stop  bool
	quota bool
}

// rule is a limit by the path to it: steps such as "a", "a=x" and "a=x*".
type rule struct {
	path     []string
	limit    descriptor.Policy
	shadow   bool
	quota    bool
	hasLimit bool
}

type verdict struct {
	over      bool
	limit     int64 // -1: none applies
	remaining uint32
	reset     int64
}

var seconds = map[descriptor.Unit]int64{1: 1, 2: 60, 3: 3600, 4: 86400, 5: 30 * 86400, 6: 365 * 86400, 7: 7 * 86400}

// find takes one entry after the other, and the rules that are left after each.
func (o *oracle) find(entries []descriptor.Entry) *rule {
	left := o.rules
	for i, e := range entries {
		for _, fits := range []func(step string) bool{
			func(step string) bool { return step == e.Key+"="+e.Value && e.Value != "" },
			func(step string) bool {
				head, isWild := strings.CutSuffix(step, "*")
				return isWild && strings.HasPrefix(e.Key+"="+e.Value, head)
			},
			func(step string) bool { return step == e.Key },
		} {
			var next []rule
			step := ""
			for _, r := range left {
				if len(r.path) > i && fits(r.path[i]) && (step == "" || step == r.path[i]) {
					step, next = r.path[i], append(next, r)
				}
			}
			if len(next) > 0 {
				left = next
				goto found
			}
		}
		return nil
	found:
	}
	i := slices.IndexFunc(left, func(r rule) bool { return len(r.path) == len(entries) && r.hasLimit })
	if i < 0 || len(entries) == 0 {
		return nil
	}
	return &left[i]
}

func (o *oracle) decide(now int64, req *Request) (all []verdict, over bool) {
	rules := make([]*rule, len(req.Descriptors))
	replaced := map[string]bool{}
	for i, d := range req.Descriptors {
		if rules[i] = o.find(d.Entries); rules[i] != nil {
			for _, name := range rules[i].limit.Replaces {
				replaced[name] = true
			}
		}
	}
	counts := make([]uint64, len(rules))
	type add struct {
		key string
		n   uint64
		i   int
	}
	var adds []add
	for i, r := range rules {
		if r == nil || r.limit.Unlimited {
			continue
		}
		if replaced[r.limit.Name] {
			rules[i] = nil
			continue
		}
		n := max(1, req.Hits)
		if own := req.Descriptors[i].OwnHits; own != nil {
			n = *own
		}
		window := now - now%seconds[r.limit.Unit]
		adds = append(adds, add{fmt.Sprintf("%q %d %d", req.Descriptors[i].Entries, r.limit.Unit, window), n, i})
	}
	tooMany := func(a add) bool { return o.count[a.key]+a.n > uint64(rules[a.i].limit.Requests) }
	stopped := o.stop && slices.ContainsFunc(adds, tooMany)
	var would []bool
	for _, a := range adds {
		would = append(would, tooMany(a))
	}
	for i, a := range adds {
		if !stopped || would[i] {
			o.count[a.key] += a.n
		}
		counts[a.i] = o.count[a.key]
	}
	quotas, full, limited := 0, 0, 0
	for i, r := range rules {
		v := verdict{limit: -1}
		switch {
		case r != nil && r.limit.Unlimited:
			v.remaining = math.MaxUint32
		case r != nil:
			n := uint64(r.limit.Requests)
			v.limit, v.reset = int64(n), seconds[r.limit.Unit]-now%seconds[r.limit.Unit]
			v.over = counts[i] > n && !r.shadow
			v.remaining = uint32(n - min(n, counts[i]))
		}
		if all = append(all, v); r != nil && r.limit.Unlimited {
			continue
		}
		isQuota := o.quota || r != nil && r.quota
		quotas, full, limited = quotas+toInt(isQuota), full+toInt(isQuota && v.over), limited+toInt(!isQuota && v.over)
	}
	return all, limited > 0 || quotas > 0 && quotas == full
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestOracle decides random requests by random trees, at times that cross the windows'
// ends. With -oracle 10000000 it is the long run.
func TestOracle(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	const perTree = 2000
	denied, limitless := 0, 0
	for done := 0; done < *oracleRequests; done += perTree {
		o := &oracle{count: map[string]uint64{}, stop: r.IntN(3) == 0, quota: r.IntN(4) == 0}
		tree := randomTree(r, o, nil, 3)
		built, errs := descriptor.New([]descriptor.Config{{Name: "f", Domain: "d", Descriptors: tree}}, false)
		if errs != nil {
			t.Fatal(errs)
		}
		counters, err := count.New(1 << 14)
		if err != nil {
			t.Fatal(err)
		}
		s := New(Config{StopWhenOver: o.stop, Quota: o.quota}, counters, stats.New(0.8, nil))
		s.SetLimits(built)
		now := int64(r.IntN(1 << 31))
		for range perTree {
			if r.IntN(40) == 0 {
				now += []int64{1, 1, 1, 60, 3600, 86400, 40 * 86400}[r.IntN(7)]
			}
			req := randomRequest(r)
			got, err := s.Decide(time.Duration(now)*time.Second+time.Duration(r.IntN(1e9)), req)
			if err != nil {
				t.Fatal(err)
			}
			want, over := o.decide(now, req)
			if got.Over != over || len(got.Statuses) != len(want) {
				t.Fatalf("%+v: over %v, want %v: %+v, %+v", req, got.Over, over, got.Statuses, want)
			}
			for i, w := range want {
				g := got.Statuses[i]
				have := verdict{g.Over, -1, g.Remaining, int64(g.Reset / time.Second)}
				if g.Limit != nil {
					have.limit = int64(g.Limit.Requests)
				} else {
					limitless++
				}
				if have != w {
					t.Fatalf("%+v, descriptor %d: %+v, want %+v; rules %+v", req, i, have, w, o.rules)
				}
			}
			denied += toInt(over)
		}
		if counters.Evictions() > 0 {
			t.Fatal("the table is too small for the oracle")
		}
	}
	if denied < *oracleRequests/20 || limitless < *oracleRequests/20 {
		t.Errorf("%d denied and %d without limit, of %d", denied, limitless, *oracleRequests)
	}
}

func randomTree(r *rand.Rand, o *oracle, path []string, depth int) (all []descriptor.Descriptor) {
	if depth == 0 {
		return nil
	}
	seen := map[string]bool{}
	for range 2 + r.IntN(5) {
		d := descriptor.Descriptor{Key: pick(r, "a", "b"), Value: pick(r, "", "", "x", "y", "x*")}
		step := d.Key
		if d.Value != "" {
			step += "=" + d.Value
		}
		if seen[step] {
			continue
		}
		seen[step] = true
		here := rule{path: append(slices.Clone(path), step)}
		if r.IntN(6) > 0 {
			d.Limit = &descriptor.Policy{Requests: uint32(r.IntN(8)), Unit: descriptor.Unit(1 + r.IntN(7))}
			switch r.IntN(8) {
			case 0:
				d.Limit = &descriptor.Policy{Unlimited: true}
			case 1:
				d.Shadow = true
			case 2:
				d.Quota = true
			case 3:
				d.Limit.Name = pick(r, "n", "m")
			case 4:
				d.Limit.Replaces = []string{pick(r, "n", "m")}
			}
			here.limit, here.hasLimit, here.shadow, here.quota = *d.Limit, true, d.Shadow, d.Quota
		}
		o.rules = append(o.rules, here)
		d.Descriptors = randomTree(r, o, here.path, depth-1)
		all = append(all, d)
	}
	return all
}

func randomRequest(r *rand.Rand) *Request {
	req := &Request{Domain: "d", Hits: uint64(r.IntN(3))}
	for range 1 + r.IntN(3) {
		var d Descriptor
		for range min(r.IntN(9), 1+r.IntN(3)) {
			d.Entries = append(d.Entries, descriptor.Entry{Key: pick(r, "a", "a", "a", "b", "b", "c"), Value: pick(r, "", "x", "xx", "y", "z")})
		}
		if r.IntN(5) == 0 {
			n := uint64(r.IntN(4))
			if r.IntN(50) == 0 {
				n = math.MaxUint32
			}
			d.OwnHits = &n
		}
		req.Descriptors = append(req.Descriptors, d)
	}
	return req
}

func pick(r *rand.Rand, of ...string) string { return of[r.IntN(len(of))] }
