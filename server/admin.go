package server

import (
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
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	adminHeaderTimeout = 5 * time.Second
	adminReadTimeout   = 10 * time.Second
	// adminWriteTimeout bounds profiles too: ask for at most 100 s.
	adminWriteTimeout   = 2 * time.Minute
	adminIdleTimeout    = time.Minute
	adminMaxHeaderBytes = 16 << 10
)

// newAdmin is the admin server: its own mux, so that nothing a dependency
// registers on the default one is served, and HTTP/1 only.
func (s *Server) newAdmin() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.newRegistry(), promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelError),
	}))
	mux.HandleFunc("GET /v1/info", s.info)
	mux.HandleFunc("GET /v1/top", s.top)
	mux.HandleFunc("POST "+decidePath, s.adminDecide)
	mux.HandleFunc("POST /v1/reload", s.adminReload)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return &http.Server{
		Handler:           s.adminGuard(mux),
		ReadHeaderTimeout: adminHeaderTimeout,
		ReadTimeout:       adminReadTimeout,
		WriteTimeout:      adminWriteTimeout,
		IdleTimeout:       adminIdleTimeout,
		MaxHeaderBytes:    adminMaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
}

// adminGuard refuses pages of other sites, also where they only read, as a
// profile costs a minute of work; and pages that rebind their own DNS name to a
// loopback listener. Nothing else looks at such a request.
func (s *Server) adminGuard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if tcpAddr(local).IsLoopback() && !localName(r.Host) {
			problem(w, http.StatusMisdirectedRequest, fmt.Sprintf("host %q: on a loopback address use localhost or the address itself", printable(r.Host)))
			return
		}
		g := guard{site: r.Header.Get("Sec-Fetch-Site"), origin: r.Header.Get("Origin"), host: r.Host}
		if err := g.crossSite(); err != nil {
			problem(w, http.StatusForbidden, err.Error())
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// readyz is not failed by anything that a rule can decide without.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	switch s.state.Load() {
	case stateServing:
		if s.config.Ready != nil {
			if err := s.config.Ready(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		io.WriteString(w, "ok\n")
	case stateStarting:
		http.Error(w, "starting", http.StatusServiceUnavailable)
	default:
		http.Error(w, "draining", http.StatusServiceUnavailable)
	}
}

func (s *Server) adminDecide(w http.ResponseWriter, r *http.Request) {
	if !guarded(w, r) {
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxDecideBytes))
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		problem(w, status, fmt.Sprintf("the body could not be read: %v; send at most %d bytes", err, maxDecideBytes))
		return
	}
	reply, err := s.decideJSON(r.Context(), body)
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	writeJSON(w, reply)
}

func (s *Server) adminReload(w http.ResponseWriter, r *http.Request) {
	if guarded(w, r) {
		problem(w, http.StatusNotImplemented, "Reload is not available in this version: restart to change the rules.")
	}
}

// guarded answers a call that must not go on, and reports whether it may.
func guarded(w http.ResponseWriter, r *http.Request) bool {
	g := guard{
		method: r.Method, contentType: r.Header.Get("Content-Type"), hasBody: r.ContentLength != 0,
		site: r.Header.Get("Sec-Fetch-Site"), origin: r.Header.Get("Origin"), host: r.Host,
	}
	status, err := g.check()
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
	w.Header().Set("Content-Type", jsonMediaType)
	w.Header().Set(denial.CacheControl, denial.NoStore)
	w.Write(append(b, '\n'))
}

func (s *Server) info(w http.ResponseWriter, _ *http.Request) {
	b, err := json.MarshalIndent(s.describe(), "", "  ")
	if err != nil {
		problem(w, http.StatusInternalServerError, err.Error())
		return
	}
	writeJSON(w, b)
}
