package decide

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/breakdown"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/accesslog"
	"github.com/fastlimit/fastlimit/server/internal/conn"
	"github.com/fastlimit/fastlimit/server/internal/http1"
	"github.com/fastlimit/fastlimit/server/internal/logs"
	"github.com/fastlimit/fastlimit/server/internal/text"
	"github.com/valyala/fasthttp"
)

// Service decides the requests of all listeners by one [Snapshot], which
// [Service.Swap] replaces. It is safe for concurrent use. The zero value is not
// usable: call [New].
//
// Fields that every request reads come first, on one cache line: kernel work between two requests evicts our
// cache lines.
type Service struct {
	current atomic.Pointer[Snapshot]
	bad     *badRequests
	denials *logs.Denials
	access  *accesslog.Log // nil: none
	load    *breakdown.Load
	log     *slog.Logger
	maxBody int // bytes of a body that are read to keep the connection
	clock   clock

	forwarder Forwarder // nil: admitted requests get an empty 200
	expeller  Expeller  // nil: banned clients are denied as others are
	oweds     sync.Pool
	lines     sync.Pool

	swaps  sync.Mutex // held while current is replaced
	rules  ruleHistory
	badLog logs.Bad
	panics logs.Budget
	counts outcomes
	took   durations
	hints  proxyHints
	dates  dates
}

// Config is what a [Service] needs besides its snapshot.
type Config struct {
	Log        *slog.Logger
	BodyBytes  int // of a body that are read and dropped to keep the connection
	DenialLogs int // lines a second; negative: none

	Access *accesslog.Log // nil: none
}

// New returns a service that decides with a snapshot.
func New(c Config, first *Snapshot) *Service {
	s := &Service{bad: newBadRequests(), denials: logs.NewDenials(c.DenialLogs), access: c.Access, load: breakdown.NewLoad(time.Now()), log: c.Log, maxBody: c.BodyBytes}
	s.oweds.New = func() any { return &Owed{from: &s.oweds} }
	s.lines.New = func() any { return new(Line) }
	s.clock.set()
	s.Swap(first)
	return s
}

// Load counts what the requests consist of.
func (s *Service) Load() *breakdown.Load { return s.load }

// Snapshot returns the snapshot that decides new requests.
func (s *Service) Snapshot() *Snapshot { return s.current.Load() }

// TrustedProxy reports whether an address is a trusted proxy.
func (s *Service) TrustedProxy(a netip.Addr) bool { return s.Snapshot().settings.Identity.Trusted(a) }

// Swap replaces the snapshot for requests that begin from now on. Requests in flight finish with theirs. Sums
// over rules continue: see [Service.RuleStats].
func (s *Service) Swap(next *Snapshot) {
	s.Update(func(*Snapshot) *Snapshot { return next })
}

// Update is Swap for a snapshot made from the current one, which is not replaced meanwhile: of two callers
// that each change a part, neither undoes the other's change.
func (s *Service) Update(change func(now *Snapshot) (next *Snapshot)) {
	s.swaps.Lock()
	defer s.swaps.Unlock()
	next := change(s.current.Load())
	s.rules.swap(next.settings.Limiter.Rules(), func() { s.current.Store(next) })
}

// SetForwarder sets what passes admitted requests on. Call it before the first request.
func (s *Service) SetForwarder(f Forwarder) { s.forwarder = f }

// Handlers returns the handlers of a listener, given its index in Settings.Listeners.
func (s *Service) Handlers(listener int) conn.Handlers {
	h := conn.Handlers{
		Answer: func(dst []byte, c *conn.Conn, h *conn.Head) ([]byte, bool, bool) {
			return s.answerSimple(dst, c, h, listener, false)
		},
		AnswerNow: func(dst []byte, c *conn.Conn, h *conn.Head) ([]byte, bool, bool) {
			return s.answerSimple(dst, c, h, listener, true)
		},
		Refuse:  s.Refuse,
		Refused: s.refusedUnread,
		// fasthttp has read the clock right before it calls the handler.
		Request:    func(ctx *fasthttp.RequestCtx) { s.answer(ctx, s.current.Load(), listener, ctx.Time()) },
		ParseError: s.parseError,
		Expect:     func(ctx *fasthttp.RequestCtx) int { return s.expect(ctx, listener) },
		Log:        parserLog{s.log},
	}
	if s.forwarder != nil {
		h.Relay = func(c *conn.Conn) bool { return s.forwarder.Relay(c, listener) }
	}
	return h
}

// answer answers a request, using only one snapshot. read is when the clock was read for it. It does not
// allocate (TestHandlerDoesNotAllocate).
func (s *Service) answer(ctx *fasthttp.RequestCtx, snap *Snapshot, listener int, read time.Time) {
	defer s.rescue(ctx)
	c := conn.Of(ctx)
	forwarded, broken := false, (*conn.Violation)(nil)
	if c != nil {
		broken, forwarded = c.BeginRequest()
	}
	header := &ctx.Request.Header
	switch {
	case !knownVersion(header):
		s.refuse(ctx, &s.bad.version, nil)
	case broken != nil:
		s.refuse(ctx, s.bad.of(broken), broken)
	case !http1.ValidTarget(header.Method(), header.RequestURI()):
		s.refuse(ctx, &s.bad.target, nil)
	case snap.batches && string(header.RequestURI()) == BatchPath:
		s.answerBatch(ctx, snap)
	default:
		if bad, err := s.discard(ctx); bad != nil {
			s.refuse(ctx, bad, err)
			break
		}
		if ctx.Request.IsBodyStream() {
			read = time.Now() // reading the body may have taken long
		}
		if s.decide(ctx, snap, listener, forwarded, read) && c != nil {
			if c.Denied() {
				ctx.SetConnectionClose()
			}
		}
	}
	if c != nil && c.LastRequest() {
		ctx.SetConnectionClose()
	}
}

// decide judges the request and answers with the verdict. It reports whether the
// request was denied.
func (s *Service) decide(ctx *fasthttp.RequestCtx, snap *Snapshot, listener int, forwarded bool, read time.Time) (denied bool) {
	if read.IsZero() { // not called by fasthttp
		read = time.Now()
	}
	r := snap.begin(listener, conn.Of(ctx), conn.PeerAddr(ctx))
	defer r.end()
	r.read = read
	r.assemble(&ctx.Request.Header)
	s.judge(context.Background(), r, forwarded)
	v := &r.verdict
	switch {
	case v.Refused != policy.NotRefused:
		s.refuse(ctx, s.bad.refused(v.Refused), refusalOf(v))
		return false
	case v.Decision.Allowed:
		if snap.always {
			r.writeAdmission(&ctx.Response)
		}
	case v.List == policy.ListDeny:
		writeListed(&ctx.Response)
	default:
		writeDenial(&ctx.Response, snap.denialOf(v, listener).answer, &v.Decision, &r.values)
	}
	if units, some := s.noted(); some {
		s.noteAnswer(ctx, nil, r, units)
	}
	s.took.endRequest(r)
	return !v.Decision.Allowed
}

// Judge decides a request that did not arrive through a [conn.Listener], with the current snapshot and its
// common identity. It counts and logs like they do, except that a refusal is only counted. The caller
// answers, in its own protocol. read is when the clock was read for the request; forwarded says that its
// connection has sent forwarding headers. ctx bounds waiting for a shared store. Requests never wait in a
// queue. Judge does not allocate.
func (s *Service) Judge(ctx context.Context, in *policy.Incoming, forwarded bool, read time.Time) (policy.Verdict, policy.Refusal) {
	snap := s.current.Load()
	r := snap.begin(0, nil, in.Peer)
	defer r.end()
	r.read = read
	r.from = snap.engine.Assemble(&snap.identity, in, &r.scratch, &r.request)
	s.judge(ctx, r, forwarded)
	if why := r.verdict.Refused; why != policy.NotRefused {
		s.bad.refused(why).Count.Add(1)
	}
	return r.verdict, r.verdict.Refused
}

// judge decides an assembled request, and counts and logs all but a refused one. On a connection it may wait
// for its slot. forwarded says that the connection has sent forwarding headers.
func (s *Service) judge(ctx context.Context, r *requestState, forwarded bool) {
	s.hint(r, forwarded)
	v := &r.verdict
	if r.from.Refused != policy.NotRefused {
		*v = policy.Verdict{Refused: r.from.Refused}
		return
	}
	decision := s.took.beginDecision(r)
	if r.snap.waits && r.conn != nil {
		*v = r.snap.engine.WaitFor(r.conn, &r.request, &r.scratch, r.read)
	} else {
		*v = r.snap.engine.DecideAt(ctx, &r.request, &r.scratch, r.read)
	}
	s.took.endDecision(decision, r)
	if v.Refused == policy.NotRefused {
		s.noteVerdict(r)
	}
}

// hint records a problem with the proxy in front of a request.
func (s *Service) hint(r *requestState, forwarded bool) {
	if warn := s.hints.note(r.peer, &r.from, forwarded); warn != warnNothing {
		s.warnProxy(warn, r.peer)
	}
}

// noteVerdict counts and logs a decision.
func (s *Service) noteVerdict(r *requestState) {
	v := &r.verdict
	s.counts.add(r.stripe, outcomeOf(v))
	if !v.Decision.Allowed {
		s.noteDenial(r)
		if v.Decision.Stage == fastlimit.StageBan && s.expeller != nil && r.conn != nil {
			s.expel(r)
		}
	}
}

// refusalOf names the rule that refused a request, if one did, for the log.
func refusalOf(v *policy.Verdict) error {
	if v.Rule == nil {
		return nil
	}
	return fmt.Errorf("rule %s: bad cost", v.Rule.Name())
}

// noteDenial counts a denial for the log. One by the deny list or an operator's ban has no rule.
func (s *Service) noteDenial(r *requestState) {
	if s.denials.Count(r.stripe, r.request.Client) {
		return
	}
	s.denials.Add(r.stripe, r.request.Client, func() logs.Denial { return describeDenial(r) })
}

// describeDenial copies what is logged.
func describeDenial(r *requestState) logs.Denial {
	q, v := &r.request, &r.verdict
	d := logs.Denial{
		Client: q.Client, Stage: v.Decision.Stage, Retry: v.Decision.RetryAfter,
		Method: text.Printable(string(q.Method)), Host: text.Printable(string(q.Host)), Path: text.Printable(string(q.Path)),
	}
	if v.Rule != nil {
		d.Rule, d.Key = v.Rule.Name(), r.snap.engine.KeyText(v.Rule, q).Text
	}
	return d
}

// rescue keeps a panic in one request from ending the process, as fasthttp would. The connection is closed:
// its state is unknown.
func (s *Service) rescue(ctx *fasthttp.RequestCtx) {
	p := recover()
	if p == nil {
		return
	}
	ctx.Response.Reset()
	s.bad.internal.answer(ctx)
	if units, some := s.noted(); some {
		s.noteAnswer(ctx, &s.bad.internal, nil, units)
	}
	s.notePanic(p)
}

func (s *Service) notePanic(p any) {
	if s.panics.Take() {
		s.log.Error("panic in a request", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	}
}

// parseError answers what fasthttp could not parse.
func (s *Service) parseError(ctx *fasthttp.RequestCtx, err error) {
	if c := conn.Of(ctx); c != nil {
		if err = c.Unparsed(err); err == nil {
			return
		}
	}
	ctx.Response.Reset()
	s.refuse(ctx, s.bad.of(err), err)
}

// refuse answers a bad request, records it for the log and closes the connection.
func (s *Service) refuse(ctx *fasthttp.RequestCtx, b *badRequest, err error) {
	s.blame(b, conn.Of(ctx))
	b.answer(ctx)
	if units, some := s.noted(); some {
		s.noteAnswer(ctx, b, nil, units)
	}
	s.badLog.Note(&b.Reason, conn.PeerAddr(ctx), err)
}

// EndSecond ends a second of the log: it reports what happened, and sets the budgets for the next one. Called
// by one goroutine.
func (s *Service) EndSecond() {
	s.clock.set()
	s.load.Tick(time.Now())
	n := s.Requests()
	s.denials.EndSecond(n.Denied+n.ListDenied+n.Banned, s.log)
	s.badLog.EndSecond(s.bad.ofClients, s.log)
	logs.Suppressed(s.log, "panics not logged", s.panics.Refill(1, s.bad.internal.Count.Load()))
	s.rules.endSecond()
}

func (s *Service) warnProxy(w warning, peer netip.Addr) {
	what := "all clients share the address of a proxy that is not trusted: add it to trusted_proxies"
	if w == warnUnnamed {
		what = "a trusted proxy does not name the client or the original request: make it set the headers of client_ip_header and original_request; until then on_unnamed decides"
	}
	s.log.Warn(what, slog.String("peer", peer.String()))
}

// parserLog takes fasthttp's log, a line for every connection that ends with an error. Bad requests have been
// counted and logged by then; the rest is only useful to developers. It implements fasthttp.Logger.
type parserLog struct{ *slog.Logger }

// Printf implements fasthttp.Logger.
func (l parserLog) Printf(format string, args ...any) {
	if l.Enabled(context.Background(), slog.LevelDebug) {
		l.Debug("connection", slog.String("error", text.Printable(fmt.Sprintf(format, args...))))
	}
}
