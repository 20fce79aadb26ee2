// Package admin is the listener for operators: health, metrics, information, top
// clients, profiles, and batches of questions. It speaks net/http, knows the
// server by the functions of its [Config] only, and is open to whoever reaches
// it, except for pages of other sites in a browser.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/server/internal/guard"
	"github.com/fastlimit/fastlimit/server/internal/text"
)

const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	// writeTimeout bounds profiles too: ask for at most 100 s.
	writeTimeout   = 2 * time.Minute
	idleTimeout    = time.Minute
	shutdownGrace  = time.Second
	maxHeaderBytes = 16 << 10
)

// Config is what an admin listener shows. All but Top are required; all are
// called concurrently.
type Config struct {
	Log     *slog.Logger
	Metrics http.Handler
	Ready   func() error // why /readyz fails; nil while the server is ready
	Info    func() Info

	// Top returns up to n clients, the highest rate first: a slice that encodes
	// as JSON. nil: no client is tracked.
	Top func(n int) any

	// Batch answers /v1/decide, with a body of at most MaxBatchBytes.
	Batch         func(ctx context.Context, body []byte) (reply []byte, err error)
	MaxBatchBytes int64
}

// Front is the admin listener. It implements lifecycle.Front. Make one with [New].
type Front struct {
	listen func() (net.Listener, error)
	ln     net.Listener // nil before Listen
	http   http.Server  // HTTP/1 only
}

// New returns a front that binds with listen.
func New(c Config, listen func() (net.Listener, error)) *Front {
	return &Front{listen: listen, http: http.Server{
		Handler:           handler(c),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(c.Log.Handler(), slog.LevelWarn),
	}}
}

// Listen binds the address.
func (f *Front) Listen() (err error) {
	f.ln, err = f.listen()
	return err
}

// Close unbinds the address.
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

// Serve answers until a drain has ended.
func (f *Front) Serve(_ context.Context, fail func(error)) {
	if err := f.http.Serve(f.ln); !errors.Is(err, http.ErrServerClosed) {
		fail(err)
	}
}

// Drain ends at once, with a little time for what is being answered. A profile that
// takes longer does not count as cut: it would last beyond any drain.
func (f *Front) Drain(_, _ time.Duration) (cut int) {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	if f.http.Shutdown(ctx) != nil {
		_ = f.http.Close()
	}
	return 0
}

// handler has a mux of its own, so that nothing a dependency registers on the
// default one is served.
func handler(c Config) http.Handler {
	a := &admin{c}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.Handle("GET /metrics", c.Metrics)
	mux.HandleFunc("GET /v1/info", a.info)
	mux.HandleFunc("GET /v1/top", a.top)
	mux.HandleFunc("POST /v1/decide", a.decide)
	mux.HandleFunc("POST /v1/reload", a.reload)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return refuseOtherSites(mux)
}

type admin struct{ Config }

// refuseOtherSites refuses requests from pages of other sites, even ones that only
// read: a profile costs a minute of work. On a loopback listener it also refuses
// pages that have rebound their own DNS name to it.
func refuseOtherSites(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if local != nil && local.IP.IsLoopback() && !guard.LocalName(r.Host) {
			problem(w, http.StatusMisdirectedRequest, fmt.Sprintf("host %q: on a loopback address use localhost or the address itself", text.Printable(r.Host)))
			return
		}
		call := callOf(r)
		if err := call.CrossSite(); err != nil {
			problem(w, http.StatusForbidden, err.Error())
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

func callOf(r *http.Request) guard.Call {
	return guard.Call{
		Method: r.Method, ContentType: r.Header.Get("Content-Type"), HasBody: r.ContentLength != 0,
		Site: r.Header.Get("Sec-Fetch-Site"), Origin: r.Header.Get("Origin"), Host: r.Host,
	}
}

// readyz does not fail for something that rules can decide without.
func (a *admin) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := a.Ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	io.WriteString(w, "ok\n")
}

func (a *admin) decide(w http.ResponseWriter, r *http.Request) {
	if !allowed(w, r) {
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, a.MaxBatchBytes))
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		problem(w, status, fmt.Sprintf("the body could not be read: %v; send at most %d bytes", err, a.MaxBatchBytes))
		return
	}
	reply, err := a.Batch(r.Context(), body)
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	writeJSON(w, reply)
}

func (a *admin) reload(w http.ResponseWriter, r *http.Request) {
	if allowed(w, r) {
		problem(w, http.StatusNotImplemented, "Reload is not available in this version: restart to change the rules.")
	}
}

// allowed reports whether a call that changes something may go on; if not, it has
// answered it.
func allowed(w http.ResponseWriter, r *http.Request) bool {
	call := callOf(r)
	status, err := call.Check()
	if err != nil {
		problem(w, status, err.Error())
	}
	return err == nil
}

func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", denial.ProblemMediaType)
	w.Header().Set(denial.CacheControl, denial.NoStore)
	w.WriteHeader(status)
	w.Write(denial.Problem(status, detail))
}

func writeJSON(w http.ResponseWriter, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(denial.CacheControl, denial.NoStore)
	w.Write(append(b, '\n'))
}

func (a *admin) info(w http.ResponseWriter, _ *http.Request) {
	b, err := json.MarshalIndent(a.Info(), "", "  ")
	if err != nil {
		problem(w, http.StatusInternalServerError, err.Error())
		return
	}
	writeJSON(w, b)
}
