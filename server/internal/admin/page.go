package admin

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"time"

	"github.com/fastlimit/fastlimit/internal/breakdown"
	"github.com/fastlimit/fastlimit/internal/bytesize"
	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/internal/keytext"
	"github.com/fastlimit/fastlimit/internal/span"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

//go:embed page.js
var pageScript string

// pageSecurity lets the page use its own style and script and call this node, and nothing else.
var pageSecurity = "default-src 'none'; img-src data:; style-src " + hashOf(pageStyle) + "; script-src " + hashOf(pageScript) +
	"; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"n": shortNumber, "time": shortSpan, "style": func() template.CSS { return template.CSS(pageStyle) },
	"script": func() template.JS { return template.JS(pageScript) },
	"json":   jsonOf, "query": queryOf,
	"at":      func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") },
	"percent": percentOf,
	"join":    keytext.Join,
	"title": func(by string) string {
		return map[string]string{"net": "Network", "path": "Path", "agent": "User agent", "status": "Answer"}[by]
	},
	"list":   func(texts ...string) []string { return texts },
	"rule":   func(name string) string { return "/v1/rules/" + url.PathEscape(name) },
	"millis": func(seconds float64) float64 { return 1000 * seconds },
	"bytes":  func(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) },
}).Parse(pageText))

// page is the content of the page. Lists hold items of documents that this package cannot decode.
type page struct {
	Now      time.Time
	Info     Info
	Ready    string // why it is not; "": it is
	Top      Top
	TopError string
	Chart    chart
	Stages   []stageRow
	Load     []TopBy

	Bannable, Changeable, Overridable bool // it can be changed

	Asked, AskedError         string // the client that was asked about
	BansError, OverridesError string

	AskedAddress bool // Asked is an address or a prefix
	Explained    explained
	Bans         struct {
		Bans []struct {
			Key, Rule, By, Reason string
			SecondsLeft           float64  `json:"seconds_left"`
			Parts                 []string `json:"key_parts"`
			Times                 int
		}
		Total int
	}
	Overrides struct {
		Overrides []struct {
			Rule, Rate, Source, By, Problem string
			Key                             []string
			Burst                           uint64
			Unlimited                       bool
			SecondsLeft                     *float64 `json:"seconds_left"`
		}
		Live, File int
	}
	Changes struct {
		Changes []struct {
			Time     time.Time
			By, What string
			Details  map[string]string
		}
		Total int
	}
}

// explained is the explanation for a client.
type explained struct {
	Text  string
	Rules []struct {
		Rule, Mode, Key, Limit, Stage, Text string

		Parts      []string `json:"key_parts"`
		Allowed    bool
		Level      float64
		RetryAfter float64 `json:"retry_after"`
	}
}

// The most rows of lists that are shown.
const (
	shownClients, shownBans, shownChanges = 50, 50, 20
	shownOverrides, shownGroups           = 50, 8
)

// page answers GET /[?key=K].
func (f *Front) page(w http.ResponseWriter, r *http.Request) {
	p := page{Now: time.Now(), Info: f.Info()}
	if err := f.Ready(); err != nil {
		p.Ready = err.Error()
	}
	var err error
	if p.Top, err = f.Top(TopQuery{N: shownClients, Sort: TopOrders[0]}); err != nil {
		p.TopError = err.Error()
	}
	for _, by := range []breakdown.By{breakdown.Net, breakdown.Path, breakdown.Agent, breakdown.Status} {
		p.Load = append(p.Load, f.TopBy(by, shownGroups))
	}
	p.Bannable, p.Changeable, p.Overridable = f.Bans != nil, f.Rules != nil, f.Overrides != nil
	h := f.History()
	p.Chart, p.Stages = chartOf(h.Minutes), stagesOf(h.Minutes)
	if key := r.URL.Query()["key"]; len(key) > 0 && len(key) <= maxKeyParts && key[0] != "" && f.Explain != nil {
		p.Asked, p.AskedAddress = key[0], len(key) == 1 && keytext.IsAddress(key[0])
		answer, err := f.Explain.Key(key, false)
		if err != nil {
			p.AskedError = err.Error()
		}
		read(&p.Explained, answer)
	}
	if f.Bans != nil {
		list, err := f.Bans.List("", shownBans)
		p.BansError = errorText(err)
		read(&p.Bans, list)
	}
	if f.Overrides != nil {
		list, err := f.Overrides.List("")
		p.OverridesError = errorText(err)
		read(&p.Overrides, list)
		p.Overrides.Overrides = p.Overrides.Overrides[:min(len(p.Overrides.Overrides), shownOverrides)]
	}
	if f.Changes != nil {
		read(&p.Changes, f.Changes(shownChanges))
	}
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, &p); err != nil {
		problem(w, http.StatusInternalServerError, err.Error())
		return
	}
	for name, value := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": pageSecurity, "Referrer-Policy": "no-referrer",
		denial.CacheControl: denial.NoStore,
	} {
		w.Header().Set(name, value)
	}
	_, _ = w.Write(out.Bytes())
}

// read takes what the page shows from a document; a document that is an error has nothing.
func read(to, document any) {
	if b, err := json.Marshal(document); err == nil {
		_ = json.Unmarshal(b, to)
	}
}

// jsonOf returns an object made from pairs, for a call.
func jsonOf(pairs ...any) (string, error) {
	object := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		object[pairs[i].(string)] = pairs[i+1]
	}
	b, err := json.Marshal(object)
	return string(b), err
}

// errorText says why a list could not be read.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// percentOf is a share in percent.
func percentOf(share any) float64 {
	switch v := share.(type) {
	case float64:
		return 100 * v
	case *float64:
		return 100 * *v
	}
	return 0
}

// queryOf returns a path with the parts of a key and, if there is one, a rule in its query.
func queryOf(path string, parts []string, rule string) string {
	q := url.Values{"key": parts}
	if rule != "" {
		q.Set("rule", rule)
	}
	return path + "?" + q.Encode()
}

// shortNumber formats a number for people.
func shortNumber(v any) string {
	switch v := v.(type) {
	case float64:
		return bytesize.Number(v)
	case uint64:
		return bytesize.Whole(v)
	case uint32:
		return bytesize.Whole(uint64(v))
	}
	return fmt.Sprint(v)
}

// shortSpan formats a time in seconds for people; it may be missing.
func shortSpan(seconds any) string {
	switch v := seconds.(type) {
	case float64:
		return span.Short(v)
	case *float64:
		if v != nil {
			return span.Short(*v)
		}
	}
	return "–"
}
