package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fastlimit/fastlimit/internal/bans"
	"github.com/fastlimit/fastlimit/internal/cli"
)

// bansCmd lists who is banned.
type bansCmd struct {
	adminFlags

	Limit int    `default:"1000" help:"Most bans to show, up to 10000: those of operators first, each kind with the longest left first."`
	Rule  string `arg:"" optional:"" help:"Name of a rule, to show its bans alone. Default: all bans."`
}

// Run implements the command.
func (c *bansCmd) Run(ctx context.Context, sys *system) error {
	if c.Limit < 1 {
		return cli.Usagef("--limit %d: want 1 to 10000", c.Limit)
	}
	client, err := c.client("bans")
	if err != nil {
		return err
	}
	q := url.Values{"limit": {strconv.Itoa(c.Limit)}}
	if c.Rule != "" {
		q.Set("rule", c.Rule)
	}
	answer, err := client.do(ctx, http.MethodGet, "/v1/bans?"+q.Encode(), nil)
	if err != nil {
		return err
	}
	var list bans.List
	if json.Unmarshal(answer, &list) != nil || list.Bans == nil {
		return client.stranger("a list of bans")
	}
	if c.Output == "json" {
		return write(sys.stdout, answer, nil)
	}
	var out bytes.Buffer
	writeBans(&out, &list)
	return write(sys.stdout, out.Bytes(), nil)
}

func writeBans(out io.Writer, list *bans.List) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tBY\tRULE\tENDS IN\tTIMES\tKERNEL")
	for i := range list.Bans {
		b := &list.Bans[i]
		kernel := "-"
		if b.Kernel {
			kernel = "yes"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%v\t%d\t%s\n", printableLong(b.Key), printable(b.By), printable(b.Rule), banEnds(b), b.Times, kernel)
	}
	w.Flush()
	if more := list.Total - len(list.Bans); more > 0 {
		fmt.Fprintf(out, "and %d more\n", more)
	}
}

func banEnds(b *bans.Shown) time.Duration {
	return time.Duration(b.SecondsLeft * float64(time.Second)).Round(time.Second)
}

type banCmd struct {
	adminFlags

	For    time.Duration `default:"1h" help:"How long it holds, 1s to 8784h. Default: 1h."`
	Prefix string        `arg:"" help:"Address or prefix, such as 192.0.2.7, 192.0.2.0/24 or 2001:db8::/48. At least a /8, of IPv6 a /16."`
}

// Run implements the command.
func (c *banCmd) Run(ctx context.Context, sys *system) error {
	client, err := c.client("ban")
	if err != nil {
		return err
	}
	b, err := json.Marshal(map[string]string{"key": c.Prefix, "for": c.For.String()})
	if err != nil {
		return err
	}
	answer, err := client.do(ctx, http.MethodPost, "/v1/bans", b)
	if err != nil || c.Output == "json" {
		return write(sys.stdout, answer, err)
	}
	var done bans.Done
	if json.Unmarshal(answer, &done) != nil || done.Key == "" {
		return client.stranger("a ban")
	}
	_, err = fmt.Fprintf(sys.stdout, "%s: banned, ends in %v%s\n", printableLong(done.Key), banEnds(&done.Shown), stillAllowed(&done))
	return err
}

// stillAllowed says which entries of the allow list a ban leaves alone.
func stillAllowed(d *bans.Done) string {
	if d.AllowedEntries == 0 {
		return ""
	}
	var shown []string
	for _, p := range d.Allowed {
		shown = append(shown, p.String())
	}
	text := "; on the allow list and not banned: " + strings.Join(shown, ", ")
	if more := d.AllowedEntries - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

type unbanCmd struct {
	adminFlags

	Rule string   `placeholder:"NAME" help:"End the ban of this rule alone. Default: of an operator and of all rules."`
	Key  []string `arg:"" help:"What is banned, as fastlimit bans shows it."`
}

// Run implements the command.
func (c *unbanCmd) Run(ctx context.Context, sys *system) error {
	client, err := c.client("unban")
	if err != nil {
		return err
	}
	key, err := checkKey(c.Key)
	if err != nil {
		return err
	}
	q := url.Values{"key": key}
	if c.Rule != "" {
		q.Set("rule", c.Rule)
	}
	answer, err := client.do(ctx, http.MethodDelete, "/v1/bans?"+q.Encode(), nil)
	if err != nil || c.Output == "json" {
		return write(sys.stdout, answer, err)
	}
	var ended bans.Ended
	if json.Unmarshal(answer, &ended) != nil || len(ended.Unbanned) == 0 {
		return client.stranger("what it has unbanned")
	}
	var out bytes.Buffer
	for _, e := range ended.Unbanned {
		who := "banned by an operator"
		if e.Rule != "" {
			who = "banned by rule " + printable(e.Rule)
		}
		fmt.Fprintf(&out, "%s: unbanned, was %s\n", printableLong(e.Key), who)
	}
	return write(sys.stdout, out.Bytes(), nil)
}
