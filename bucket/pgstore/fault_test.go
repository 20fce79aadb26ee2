package pgstore

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/testkit/faultproxy"
	"github.com/fastlimit/fastlimit/internal/testkit/pgtest"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
	"github.com/jackc/pgx/v5"
)

// brisk gives up early enough for a test and late enough for a noisy machine.
func brisk(url string, l *logs) Config {
	return Config{
		URL: url, Timeout: 40 * time.Millisecond, RetryMin: 20 * time.Millisecond, RetryMax: 200 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(l, nil)),
	}
}

// site is a server, a faulty connection to it, and how to undo the fault.
type site struct {
	t      *testing.T
	server *pgtest.Server
	proxy  *faultproxy.Proxy
	admin  *pgx.Conn
}

func (s *site) line(f faultproxy.Fault) { s.t.Helper(); s.proxy.Set(s.t, f) }

// do runs statements on a connection that was open before the fault.
func (s *site) do(sql string) {
	s.t.Helper()
	for statement := range strings.SplitSeq(sql, ";") { // one by one: several at once are one transaction
		if _, err := s.admin.Exec(context.Background(), statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			s.t.Fatalf("%s: %v", statement, err)
		}
	}
}

// drop ends all connections of nodes.
const drop = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'node'"

// fault is one way in which PostgreSQL misbehaves.
type fault struct {
	name         string
	class        string // of the errors that must show up; "" where none need to
	trips        bool   // the breaker must open
	lost         bool   // the server forgets what it has granted
	strike, heal func(*site)
}

var faithful = func(s *site) { s.line(faultproxy.Fault{}) }

func sql(text string) func(*site) { return func(s *site) { s.t.Helper(); s.do(text) } }

func line(f faultproxy.Fault) func(*site) { return func(s *site) { s.t.Helper(); s.line(f) } }

var faults = []fault{
	{name: "refused", class: "refused", trips: true, strike: line(faultproxy.Fault{Refuse: true}), heal: faithful},
	{name: "packets swallowed", class: "timeout", trips: true, strike: line(faultproxy.Fault{BlackHole: true}), heal: faithful},
	{name: "accept then silent", class: "timeout", trips: true, strike: line(faultproxy.Fault{Silent: true}), heal: func(s *site) { faithful(s); s.proxy.Cut() }},
	{name: "resets now and then", class: "reset", strike: line(faultproxy.Fault{ResetOneIn: 20}), heal: faithful},
	{name: "slow answers", trips: true, strike: line(faultproxy.Fault{Delay: 80 * time.Millisecond}), heal: faithful},
	{name: "1 byte per segment", strike: line(faultproxy.Fault{Slice: 1}), heal: faithful},
	{name: "not PostgreSQL", class: "protocol", trips: true, strike: func(s *site) {
		s.line(faultproxy.Fault{Garbage: []byte("HTTP/1.1 400 Bad Request\r\n\r\n")})
	}, heal: func(s *site) { faithful(s); s.proxy.Cut() }},
	{name: "crash and restart", trips: true, lost: true, strike: func(s *site) { s.server.Kill() }, heal: func(s *site) { s.server.Run() }},
	{name: "frozen", class: "timeout", trips: true, strike: func(s *site) { s.server.Stop() }, heal: func(s *site) { s.server.Continue() }},
	{
		name: "read-only", class: "readonly", trips: true,
		strike: sql("ALTER ROLE node SET default_transaction_read_only = on; " + drop), heal: sql("ALTER ROLE node RESET default_transaction_read_only; " + drop),
	},
	{name: "lock on the table", class: "locked", trips: true, strike: sql("BEGIN; LOCK TABLE fastlimit.bucket"), heal: sql("COMMIT")},
	{
		name: "statement_timeout", class: "canceled", trips: true,
		strike: sql("ALTER ROLE node SET statement_timeout = 20; " + drop + "; BEGIN; LOCK TABLE fastlimit.bucket"), heal: sql("COMMIT; ALTER ROLE node RESET statement_timeout; " + drop),
	},
	{name: "too many connections", class: "connections", trips: true, strike: sql("ALTER ROLE node CONNECTION LIMIT 0; " + drop), heal: sql("ALTER ROLE node CONNECTION LIMIT -1")},
	{name: "no login", class: "auth", trips: true, strike: sql("ALTER ROLE node NOLOGIN; " + drop), heal: sql("ALTER ROLE node LOGIN")},
	{name: "no permission", class: "noperm", trips: true, strike: sql("REVOKE ALL ON fastlimit.bucket FROM node"), heal: sql("GRANT SELECT, INSERT, UPDATE, DELETE ON fastlimit.bucket TO node")},
	{name: "no schema", class: "schema", trips: true, strike: sql("ALTER SCHEMA fastlimit RENAME TO gone"), heal: sql("ALTER SCHEMA gone RENAME TO fastlimit")},
	{name: "TRUNCATE", lost: true, strike: sql("TRUNCATE fastlimit.bucket"), heal: func(*site) {}},
	{
		// A server of an earlier second takes over.
		name: "failover that loses the last second", lost: true, trips: true,
		strike: func(s *site) {
			s.do("CREATE TABLE before AS SELECT * FROM fastlimit.bucket")
			time.Sleep(time.Second)
			s.line(faultproxy.Fault{Refuse: true})
		},
		heal: func(s *site) {
			s.do("BEGIN; DELETE FROM fastlimit.bucket; INSERT INTO fastlimit.bucket SELECT * FROM before; COMMIT")
			faithful(s)
		},
	},
}

// Every fault of one server, under load: each operation has one outcome, nothing is
// charged twice, and the store recovers by itself. The user has the least privileges.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			runFault(t, &f)
		})
	}
}

// newSite is a server with the schema and a user that has the least privileges.
func newSite(t *testing.T, settings ...string) *site {
	t.Helper()
	server := pgtest.Start(t, settings...)
	server.Do("CREATE ROLE node LOGIN")
	if err := Init(t.Context(), patient(server.URL("postgres", "postgres")), SchemaOptions{Grant: "node"}); err != nil {
		t.Fatal(err)
	}
	return &site{t: t, server: server, proxy: faultproxy.New(t, server.Addr, 7), admin: server.Session()}
}

func (s *site) url() string {
	return strings.Replace(s.server.URL("node", "postgres"), s.server.Addr, s.proxy.Addr(), 1)
}

// openBrisk opens a store that may find even a good server slow on a noisy machine; it
// recovers by itself.
func openBrisk(t *testing.T, c Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), c)
	if err != nil && !errors.Is(err, bucket.ErrAway) {
		t.Fatal(err)
	}
	closeLater(t, s)
	return s
}

func runFault(t *testing.T, f *fault) {
	at := newSite(t)
	l := new(logs)
	s := openBrisk(t, brisk(at.url(), l))
	load := startLoad(t, s)
	load.progress("works at first")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%+v\n%s", s.Stats(), l)
		}
	})

	f.strike(at)
	redistest.Eventually(t, "the fault shows", func() bool {
		st := s.Stats()
		return (f.class == "" || st.Errors[f.class] > 0) && (!f.trips || st.Trips > 0)
	})
	if !f.trips {
		load.progress("works in spite of the fault")
	}
	f.heal(at)
	redistest.Eventually(t, "the breaker closes", func() bool { return s.Stats().State == "closed" })
	load.progress("works again")

	load.end()
	load.audit(at.server, f.lost)
	ended := s.Stats()
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	if opened := l.count("postgres is away"); uint64(opened) != s.Stats().Trips {
		t.Errorf("%d lines about %d trips", opened, s.Stats().Trips)
	}
	if ended.Queue != 0 || ended.Pool.Total > s.driver.config.Workers+extraConns {
		t.Errorf("%d operations left in the queue, %d connections for %d workers", ended.Queue, ended.Pool.Total, s.driver.config.Workers)
	}
}

// A take whose answer is lost has been carried out, and is not sent again.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	at := newSite(t)
	s := mustOpen(t, patient(at.url()))
	shape := mustShape(t, 1, 24*time.Hour, 100)
	take := func() (bucket.Reply, error) {
		return do(s, bucket.Op{Kind: bucket.Take, Key: "k", Shape: shape, Cost: shape.Unit(), Count: 1})
	}
	if _, err := take(); err != nil {
		t.Fatal(err)
	}
	at.line(faultproxy.Fault{LoseNext: true})
	_, lost := take()
	r, err := take()
	if level := (r.Level + shape.Unit() - 1) / shape.Unit(); err != nil || lost == nil || level > 3 {
		t.Errorf("%v, then %v: %d of 3 takes were charged", lost, err, level)
	}
}
