package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fastlimit/fastlimit/internal/cli"
	"github.com/fastlimit/fastlimit/internal/explain"
)

// explainCmd tells why a client is denied, or is not.
type explainCmd struct {
	adminFlags

	URL    string   `placeholder:"URL" help:"Explain a request for this URL, such as https://example.com/login, by only the rules that apply to it. KEY is then the client's address."`
	Path   string   `help:"Explain a request for this path."`
	Host   string   `help:"Explain a request for this host."`
	Method string   `help:"Explain a request with this method. Default: GET."`
	Header []string `placeholder:"NAME:VALUE" sep:"none" help:"Explain a request with this header. Repeat it for more headers."`
	Words  []string `arg:"" name:"key" help:"The client's key, as fastlimit top shows it; put the name of a rule before it to ask only about that rule."`
}

// Run implements the command.
func (c *explainCmd) Run(ctx context.Context, sys *system) error {
	client, err := c.client("explain", sys)
	if err != nil {
		return err
	}
	words, err := checkKey(c.Words)
	if err != nil {
		return err
	}
	q, err := c.query()
	if err != nil {
		return err
	}
	q["key"] = words
	if !q.Has("method") { // else of a request, which finds its rules itself
		rule, key, err := client.ruleAndKey(ctx, words)
		if err != nil {
			return err
		}
		if q["key"] = key; rule != "" {
			q.Set("rule", rule)
		}
	}
	const want = "an explanation"
	path := "/v1/explain?" + q.Encode()
	if q.Has("rule") {
		return show(ctx, client, http.MethodGet, path, nil, want, func(r *explain.Rule) string {
			return explained(&explain.Document{Text: r.Text, Rules: []explain.Rule{*r}})
		})
	}
	return show(ctx, client, http.MethodGet, path, nil, want, explained)
}

// query is that of a request, which has a method then; empty if none is asked about.
func (c *explainCmd) query() (url.Values, error) {
	path, host := c.Path, c.Host
	if c.URL != "" {
		u, err := url.Parse(c.URL)
		if err != nil || u.Host == "" {
			return nil, cli.Usagef("--url %s: want one such as https://example.com/login", c.URL)
		}
		path, host = cmp.Or(path, u.RequestURI()), cmp.Or(host, u.Host)
	}
	if path == "" && host == "" && c.Method == "" && c.Header == nil {
		return url.Values{}, nil
	}
	for _, h := range c.Header {
		if name, _, ok := strings.Cut(h, ":"); !ok || name == "" {
			return nil, cli.Usagef("--header %s: want NAME:VALUE, for example X-Api-Key:abc", h)
		}
	}
	q := url.Values{"method": {cmp.Or(c.Method, http.MethodGet)}, "header": c.Header}
	if path != "" {
		q.Set("path", path)
	}
	if host != "" {
		q.Set("host", host)
	}
	return q, nil
}

// ruleAndKey tells the name of a rule of the node from the key that follows it; rule is "" if
// there is none.
func (c *adminClient) ruleAndKey(ctx context.Context, words []string) (rule string, key []string, err error) {
	if len(words) == 1 {
		return "", words, nil
	}
	answer, err := c.do(ctx, http.MethodGet, "/v1/info", nil)
	if err != nil {
		return "", nil, err
	}
	var info struct {
		Rules []struct {
			Name string `json:"name"`
		} `json:"rules"`
	}
	if json.Unmarshal(answer, &info) != nil {
		return "", nil, c.stranger("its rules")
	}
	for _, r := range info.Rules {
		if r.Name == words[0] {
			return words[0], words[1:], nil
		}
	}
	return "", words, nil
}

func explained(d *explain.Document) string {
	if d.Text == "" {
		return ""
	}
	var out strings.Builder
	fmt.Fprintln(&out, printableLong(d.Text))
	if len(d.Rules) == 0 {
		return out.String()
	}
	fmt.Fprintln(&out)
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RULE\tMODE\tKEY\tLIMIT\tNEXT REQUEST\tSTAGE\tLEVEL\tSUSPICION\tNODES")
	for i := range d.Rules {
		r := &d.Rules[i]
		suspicion := "-"
		if r.Suspicion != nil {
			suspicion = fmt.Sprintf("%.0f %%", 100**r.Suspicion)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%.4g\t%s\t%s\n", printable(r.Rule), printable(r.Mode), printable(r.Key), limitOf(r), nextRequest(r),
			printable(r.Stage), r.Level, suspicion, cmp.Or(printable(strings.Join(r.Nodes, " ")), "-"))
	}
	w.Flush()
	return out.String()
}

func limitOf(r *explain.Rule) string {
	switch {
	case r.Override != nil && r.Override.Unlimited:
		return "unlimited (override)"
	case r.Override != nil:
		return printable(r.Limit) + " (override)"
	}
	return printable(r.Limit)
}

func nextRequest(r *explain.Rule) string {
	after := func(seconds float64) time.Duration {
		return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond)
	}
	switch {
	case r.Waits > 0:
		return fmt.Sprintf("waits %v", after(r.Waits))
	case r.Allowed:
		return "admitted"
	case r.RetryAfter > 0:
		return fmt.Sprintf("denied, again in %v", after(r.RetryAfter))
	}
	return "denied"
}
