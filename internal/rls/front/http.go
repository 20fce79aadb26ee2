package front

import (
	"io"
	"net/http"
	"net/http/pprof"
	"net/url"
	"strings"

	"github.com/fastlimit/fastlimit/internal/rls/api"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// requests answers those who have no gRPC.
func (f *Front) requests() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/json", f.json)
	mux.HandleFunc("/healthcheck", func(w http.ResponseWriter, _ *http.Request) {
		if !f.ok.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		io.WriteString(w, "OK")
	})
	return mux
}

// json is a call in JSON, as protobuf maps it: 200 if the request is within its limits, 429
// if not, 400 if it is wrong.
func (f *Front) json(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	if err != nil {
		wrong(w, err)
		return
	}
	in := new(api.RateLimitRequest)
	if err := protojson.Unmarshal(body, in); err != nil {
		wrong(w, err)
		return
	}
	out, err := f.decide(in)
	if err != nil {
		wrong(w, err)
		return
	}
	text, err := protojson.Marshal(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if out.GetOverallCode() == api.RateLimitResponse_OVER_LIMIT {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	w.Write(text)
}

// wrong answers with upstream's text; the reason is where HTTP carries gRPC's.
func wrong(w http.ResponseWriter, err error) {
	reason := strings.ReplaceAll(url.PathEscape(status.Convert(err).Message()), "%20", " ")
	w.Header().Set("Grpc-Message", reason)
	http.Error(w, http.StatusText(http.StatusBadRequest), http.StatusBadRequest)
}

// operators shows the limits in force, and profiles.
func (f *Front) operators() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/rlconfig", func(w http.ResponseWriter, _ *http.Request) {
		if l := f.service.Limits(); l != nil {
			io.WriteString(w, l.String())
		}
	})
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "/debug/pprof/: profiles\n/rlconfig: the limits in force\n")
	})
	return mux
}
