package pgstore

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit/faultproxy"
	"github.com/fastlimit/fastlimit/internal/testkit/pgtest"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// pair is a primary and a standby that follows it asynchronously, by a line that can
// be cut.
type pair struct {
	t                *testing.T
	primary, standby *pgtest.Server
	line             *faultproxy.Proxy
}

func newPair(t *testing.T) *pair {
	t.Helper()
	primary := pgtest.Start(t)
	primary.Do("CREATE ROLE node LOGIN")
	if err := Init(t.Context(), patient(primary.URL("postgres", "postgres")), SchemaOptions{Grant: "node"}); err != nil {
		t.Fatal(err)
	}
	line := faultproxy.New(t, primary.Addr, 7)
	return &pair{t: t, primary: primary, standby: primary.Standby(line.Addr()), line: line}
}

// url names both, of which the store wants the primary.
func (p *pair) url() string {
	return strings.Replace(p.primary.URL("node", "postgres"), p.primary.Addr, p.primary.Addr+","+p.standby.Addr, 1) + "&target_session_attrs=read-write"
}

// part cuts the line: from now on what is committed will be lost.
func (p *pair) part() {
	p.t.Helper()
	p.line.Set(p.t, faultproxy.Fault{Refuse: true})
	redistest.Eventually(p.t, "the standby to have applied what it has", func() bool {
		return p.standby.Do(`SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'startup' AND wait_event = 'RecoveryRetrieveRetryInterval'
			AND NOT EXISTS (SELECT FROM pg_stat_wal_receiver)`) == "1"
	})
}

// The primary dies with what the standby has not got, under load: the store follows to
// the standby once that is promoted. What was granted since the line was cut is lost, and
// nothing else; nothing is charged twice.
func TestFailover(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	l := new(logs)
	s := openBrisk(t, brisk(p.url(), l))
	load := startLoad(t, s)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%+v\n%s", s.Stats(), l)
		}
	})
	load.progress("works at first")
	p.part()
	had := load.charged(p.standby)
	load.progress("works, unseen by the standby")
	load.progress("goes on")
	p.primary.Crash()
	// A standby is no server to work with. What was slow before may have opened the breaker
	// too, and closed it again.
	redistest.Eventually(t, "probes find no primary", func() bool {
		now := s.Stats()
		return now.Errors["refused"]+now.Errors["readonly"] > 0 && now.State != "closed"
	})
	before := load.granted()
	if st := s.Stats().State; st == "closed" {
		t.Error("the breaker is closed before anything was promoted")
	}
	p.standby.Promote()
	redistest.Eventually(t, "the breaker closes", func() bool { return s.Stats().State == "closed" })
	load.progress("works on the new primary")
	load.end()
	load.audit(p.standby, true)
	after := load.granted() - before
	units := load.charged(p.standby)
	if units < had+after || units > had+after+load.failed() {
		t.Errorf("%d units charged; want the %d that the standby had, and %d granted since it was promoted (%d are unknown)", units, had, after, load.failed())
	}
	if before-had < 100 {
		t.Errorf("%d units were lost: too few to see", before-had)
	}
	t.Logf("%d granted by the old primary, of which the standby had %d; %d by the new one", before, had, after)
}

// What a failover loses is all that a client gets beyond its limit, and not even that
// where the node that granted it is asked first: it raises the new primary's level to
// what it knows (P2). A client within its limit is denied by nobody (P1).
func TestFailoverKeepsTheLimit(t *testing.T) {
	t.Parallel()
	const burst, had, lost = 40, 20, 15
	for name, limit := range map[string]struct{ first, most int }{
		"the node that knows asks first": {0, burst},
		"another node asks first":        {1, burst + lost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			c := patient(p.url())
			var nodes []*fastlimit.Rule
			var stores []*Store
			for range 2 {
				s := mustOpen(t, c)
				lim, err := fastlimit.New(fastlimit.Config{Store: s, StoreTimeout: c.Timeout, Memory: 4 << 20, Rules: []fastlimit.RuleConfig{
					{Name: "r", Rate: fastlimit.Rate{N: 1, Per: 24 * time.Hour}, Burst: burst, Strict: true},
				}})
				if err != nil {
					t.Fatal(err)
				}
				nodes, stores = append(nodes, lim.Rules()[0]), append(stores, s)
			}
			admitted := 0
			flood := func(node, n int) {
				for range n {
					if nodes[node].Take(t.Context(), nodes[node].BytesKey([]byte("flood")), 1).Allowed {
						admitted++
					}
				}
			}
			keep := func() {
				t.Helper()
				for node, r := range nodes {
					for range 3 {
						if d := r.Take(t.Context(), r.BytesKey([]byte("good")), 1); !d.Allowed {
							t.Errorf("P1: node %d denied at stage %v", node, d.Stage)
						}
					}
				}
			}
			level := func() string {
				return p.standby.Do("SELECT (level + unit - 1) / unit FROM fastlimit.bucket WHERE convert_from(key, 'UTF8') = 'r:\"flood\"'")
			}
			flood(0, had)
			keep()
			redistest.Eventually(t, "the standby to have that", func() bool { return level() == strconv.Itoa(had) })
			p.part()
			flood(0, lost)
			keep()
			p.primary.Crash()
			for _, s := range stores {
				s.driver.pool.Reset()
			}
			keep() // by what each node knows
			p.standby.Promote()
			for _, s := range stores {
				redistest.Eventually(t, "the breaker closes", func() bool { return s.Stats().State == "closed" })
			}
			keep()
			flood(limit.first, 2*burst)
			flood(1-limit.first, 2*burst)
			keep()
			if admitted < burst || admitted > limit.most {
				t.Errorf("P2: %d admitted, want %d to %d", admitted, burst, limit.most)
			}
			t.Logf("%d admitted of a burst of %d, %d lost", admitted, burst, lost)
		})
	}
}

// Nobody promotes a lone standby while a node waits: that is an error at the start which
// says what to write. Where other servers are named the store waits for one to be promoted.
func TestStandbyAtStart(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	lone := patient(p.standby.URL("node", "postgres"))
	if class, text := refused(t, lone); class != classReadOnly || !strings.Contains(text, "is a standby: name the primary, or all servers and target_session_attrs=read-write") {
		t.Errorf("a standby: %s", text)
	}
	lone.URL += "&target_session_attrs=read-write"
	if class, text := refused(t, lone); class != classReadOnly || !strings.Contains(text, "name the primary") {
		t.Errorf("a standby where a primary is wanted: %s", text)
	}
	p.primary.Crash()
	c := brisk(p.url(), new(logs))
	s, err := Open(t.Context(), c)
	if s == nil {
		t.Fatalf("no store: %v", err)
	}
	closeLater(t, s)
	if state := s.Stats().State; state == "closed" {
		t.Errorf("the breaker is %s without a primary", state)
	}
	p.standby.Promote()
	redistest.Eventually(t, "the breaker closes", func() bool { return s.Stats().State == "closed" })
}
