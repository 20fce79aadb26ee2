// Package admin is the listener for operators: health, metrics, information, top clients, profiles, and
// batches of questions. It speaks net/http, knows the server only through the functions in its [Config], and
// serves anybody who reaches it, except pages of other sites in a browser.
package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/internal/breakdown"
	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/server/internal/guard"
)

// A client that is slow to send, read or leave must not hold a connection forever.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second // a batch of 1 MiB, even from far away
	// writeTimeout bounds profiles too: ask for at most 100 s.
	writeTimeout   = 2 * time.Minute
	idleTimeout    = time.Minute
	shutdownGrace  = time.Second
	maxHeaderBytes = 16 << 10
)

// Overrides are the limits that operators give to clients of a rule for a while, for /v1/overrides. Errors are
// for people; those with a method HTTPStatus have that status, others are 500. Methods are called concurrently.
type Overrides interface {
	// List returns a document that encodes as JSON: of a rule or, if rule is "", of all.
	List(rule string) (any, error)
	// Put makes the change in a body, Delete ends one; by is the caller's address.
	Put(ctx context.Context, body []byte, by string) (reply any, err error)
	Delete(ctx context.Context, rule string, key []string, by string) error
}

// Bans are the clients that rules or operators refuse for a while, for /v1/bans. Errors are like those of
// [Overrides].
type Bans interface {
	// List returns a document that encodes as JSON, with up to limit bans: of a rule or, if rule is "", of
	// all.
	List(rule string, limit int) (any, error)
	// Ban makes the ban in a body, Unban ends the bans of a key, of all rules if rule is ""; by is the
	// caller's address.
	Ban(body []byte, by string) (reply any, err error)
	Unban(rule string, key []string, by string) (reply any, err error)
}

// LiveRules are operators' temporary changes to rules, for /v1/rules. Errors are like those of [Overrides].
type LiveRules interface {
	// List returns a document that encodes as JSON, with all rules.
	List() any
	// Change makes the change in a body to a rule, Undo reverts changes, here or on all nodes; by is the
	// caller.
	Change(ctx context.Context, rule string, body []byte, by string) (reply any, err error)
	Undo(ctx context.Context, rule string, forAll bool, by string) (reply any, err error)
}

// Config configures an admin listener. All but Top, Overrides, Bans and Rules are required; all functions but
// Listen are called concurrently.
type Config struct {
	Listen  func() (net.Listener, error) // binds the address
	Log     *slog.Logger
	Metrics http.Handler
	Ready   func() error // why /readyz fails; nil while the server is ready
	Info    func() Info

	// Top returns clients and totals. Its error is for people: no such rule, or ErrNotTracked.
	Top func(q TopQuery) (Top, error)
	// TopBy returns the n largest groups of requests.
	TopBy func(by breakdown.By, n int) TopBy

	Overrides Overrides             // nil: there are none, and none can be set
	Bans      Bans                  // likewise
	Rules     LiveRules             // nil: no rule can be changed
	Operator  func() guard.Operator // who may make changes; nil: only callers on this machine

	// Reload reads the configuration again; by names the caller. Its errors are like those of Overrides. nil:
	// nothing can be reloaded.
	Reload func(ctx context.Context, by string) error

	// History returns the decisions of the last hour.
	History func() History

	// Changes returns up to n changes made to the node, for encoding as JSON; nil: none are kept.
	Changes func(n int) any

	// Explain says what a client's next request would get.
	Explain Explainer

	// HashKey returns the hash shown in keys instead of a secret value.
	HashKey func(value string) string

	// Batch answers /v1/decide, with a body of at most MaxBatchBytes.
	Batch         func(ctx context.Context, body []byte) (reply []byte, err error)
	MaxBatchBytes int64
}

// Front is the admin listener. It implements lifecycle.Front. The zero value is not
// usable: call [New].
type Front struct {
	Config
	ln      net.Listener // nil unless bound
	http    http.Server
	serving sync.WaitGroup

	refusals refusals
}

// New returns a front that is not bound yet. It speaks HTTP/1 only.
func New(c Config) *Front {
	if c.Operator == nil {
		c.Operator = func() guard.Operator { return guard.Operator{} }
	}
	f := &Front{Config: c}
	f.http = http.Server{
		Handler:           refuseOtherSites(f.readers(f.routes())),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       withPeer,
		ErrorLog:          slog.NewLogLogger(c.Log.Handler(), slog.LevelWarn),
	}
	return f
}

// Listen binds the address.
func (f *Front) Listen() (err error) {
	f.ln, err = f.Config.Listen()
	return err
}

// Close unbinds the address, if it is bound.
func (f *Front) Close() {
	if f.ln != nil {
		_ = f.ln.Close()
		f.ln = nil
	}
}

// Addr is the bound address, nil if none is.
func (f *Front) Addr() net.Addr {
	if f.ln == nil {
		return nil
	}
	return f.ln.Addr()
}

// Begin answers until Drain is called.
func (f *Front) Begin(fail func(error)) {
	f.serving.Go(func() {
		if err := f.http.Serve(f.ln); !errors.Is(err, http.ErrServerClosed) {
			fail(err)
		}
	})
}

// Serve returns when the listener is closed.
func (f *Front) Serve(context.Context) { f.serving.Wait() }

// Drain lets answers in progress finish, if that does not take long. A profile that is cut does not count: it
// could outlast any drain.
func (f *Front) Drain(_, _ time.Duration) (cut int) {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	if f.http.Shutdown(ctx) != nil {
		_ = f.http.Close()
	}
	return 0
}

// readyz answers load balancers, /livez supervisors: a draining node must get no new clients, but must not be
// restarted either. It does not fail for something that rules can decide without.
func (f *Front) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := f.Ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	io.WriteString(w, "ok\n")
}

// decide answers a batch of questions. Denied clients are part of a 200: the status
// is about the batch, not about the clients in it.
func (f *Front) decide(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r, f.MaxBatchBytes)
	if !ok {
		return
	}
	reply, err := f.Batch(r.Context(), body)
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	writeJSON(w, reply, nil)
}

// readBody reads a body, or answers that it is too large or did not arrive.
func readBody(w http.ResponseWriter, r *http.Request, most int64) (body []byte, ok bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		problem(w, status, fmt.Sprintf("the body could not be read: %v; send at most %d bytes", err, most))
	}
	return body, err == nil
}

// problem answers with a document of RFC 9457, like denials of the traffic listeners. Nothing may cache it:
// the next call may succeed.
func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", denial.ProblemMediaType)
	w.Header().Set(denial.CacheControl, denial.NoStore)
	w.WriteHeader(status)
	w.Write(denial.Problem(status, detail))
}

// writeJSON answers with a document, or that it could not be encoded.
func writeJSON(w http.ResponseWriter, b []byte, err error) {
	if err != nil {
		problem(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(denial.CacheControl, denial.NoStore)
	w.Write(append(b, '\n'))
}
