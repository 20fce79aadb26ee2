package admin

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"

	"github.com/fastlimit/fastlimit/server/internal/guard"
	"github.com/fastlimit/fastlimit/server/internal/text"
)

// routes use a mux of their own, so that nothing a dependency registers on the default one is served.
func (f *Front) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", f.readyz)
	mux.Handle("GET /metrics", f.Metrics)
	mux.HandleFunc("GET /{$}", f.page)
	mux.HandleFunc("GET /v1/info", f.info)
	mux.HandleFunc("GET /v1/history", f.history)
	mux.HandleFunc("GET /v1/top", f.top)
	mux.HandleFunc("GET /v1/changes", f.changesMade)
	mux.HandleFunc("GET /v1/explain", f.explain)
	mux.HandleFunc("POST /v1/decide", changes(f.decide))
	mux.HandleFunc("POST /v1/reset", f.byOperator(f.reset))
	mux.HandleFunc("POST /v1/key", f.byOperator(f.key))
	mux.HandleFunc("POST /v1/reload", f.byOperator(f.reload))
	mux.HandleFunc("GET /v1/overrides", f.listOverrides)
	mux.HandleFunc("PUT /v1/overrides", f.byOperator(f.putOverride))
	mux.HandleFunc("DELETE /v1/overrides", f.byOperator(f.deleteOverride))
	mux.HandleFunc("GET /v1/rules", f.listRules)
	mux.HandleFunc("PATCH /v1/rules/{name}", f.byOperator(f.changeRule))
	mux.HandleFunc("DELETE /v1/rules/{name}", f.byOperator(f.undoRule))
	mux.HandleFunc("GET /v1/bans", f.listBans)
	mux.HandleFunc("POST /v1/bans", f.byOperator(f.ban))
	mux.HandleFunc("DELETE /v1/bans", f.byOperator(f.unban))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// cmdline shows only the program's name: its flags may contain passwords.
func cmdline(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	io.WriteString(w, filepath.Base(os.Args[0]))
}

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

// readers refuses callers that may not even read, except on the paths of load balancers and supervisors.
func (f *Front) readers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := f.Operator()
		authorization := r.Header.Get("Authorization")
		if status, err := who.CheckRead(f.Addr(), authorization); err != nil && r.URL.Path != "/livez" && r.URL.Path != "/readyz" {
			if r.URL.Path == "/" { // then browsers ask for a password
				w.Header().Add("WWW-Authenticate", `Basic realm="fastlimit: a token as the password"`)
			}
			refuse(w, status, err)
			return
		}
		if name := who.Who(authorization); name != "" {
			r = r.WithContext(context.WithValue(r.Context(), tokenKey{}, name))
		}
		next.ServeHTTP(w, r)
	})
}

// refuse answers a caller without permission.
func refuse(w http.ResponseWriter, status int, err error) {
	if status == http.StatusUnauthorized {
		w.Header().Add("WWW-Authenticate", "Bearer")
	}
	problem(w, status, err.Error())
}

// changes is for calls that change something, which a page's form must not be able to make.
func changes(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		call := callOf(r)
		if status, err := call.Check(); err != nil {
			problem(w, status, err.Error())
			return
		}
		next(w, r)
	}
}

// byOperator is for calls that change how requests are decided. Browsers ask before they send PUT or DELETE
// for a page, and nothing here allows it.
func (f *Front) byOperator(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		call := callOf(r)
		who := f.Operator()
		if status, err := who.Check(&call, f.Addr(), r.Header.Get("Authorization")); err != nil {
			if status != http.StatusUnsupportedMediaType {
				f.refusals.note(f.Log, r, status)
			}
			refuse(w, status, err)
			return
		}
		next(w, r)
	}
}

// callOf converts a request for package guard, which also serves fasthttp. A length of -1, from a chunked
// body, is a body too.
func callOf(r *http.Request) guard.Call {
	return guard.Call{
		Method: r.Method, ContentType: r.Header.Get("Content-Type"), HasBody: r.ContentLength != 0,
		Site: r.Header.Get("Sec-Fetch-Site"), Origin: r.Header.Get("Origin"), Host: r.Host,
	}
}
