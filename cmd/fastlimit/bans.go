package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
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

	Limit int    `default:"1000" help:"The most bans to show, up to 10000. Bans by operators come first, and in each kind those that last longest."`
	Rule  string `arg:"" optional:"" help:"Name of a rule, to show only its bans. Default: all bans."`
}

// Run implements the command.
func (c *bansCmd) Run(ctx context.Context, sys *system) error {
	if c.Limit < 1 {
		return cli.Usagef("--limit %d: want 1 to 10000", c.Limit)
	}
	client, err := c.client("bans", sys)
	if err != nil {
		return err
	}
	q := url.Values{"limit": {strconv.Itoa(c.Limit)}}
	if c.Rule != "" {
		q.Set("rule", c.Rule)
	}
	return show(ctx, client, http.MethodGet, "/v1/bans?"+q.Encode(), nil, "a list of bans", bansText)
}

func bansText(list *bans.List) string {
	if list.Bans == nil {
		return ""
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tBY\tRULE\tENDS IN\tTIMES\tKERNEL\tREASON")
	for i := range list.Bans {
		b := &list.Bans[i]
		kernel := "-"
		if b.Kernel {
			kernel = "yes"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%v\t%d\t%s\t%s\n", printableLong(b.Key), printable(b.By), printable(b.Rule), inSeconds(b.SecondsLeft), b.Times, kernel, cmp.Or(printableLong(b.Reason), "-"))
	}
	w.Flush()
	if more := list.Total - len(list.Bans); more > 0 {
		fmt.Fprintf(&out, "and %d more\n", more)
	}
	return out.String()
}

type banCmd struct {
	adminFlags

	For    time.Duration `default:"1h" help:"How long it lasts, 1s to 8784h. Default: 1h."`
	Reason string        `placeholder:"TEXT" help:"The reason, which fastlimit bans shows; at most 200 bytes."`
	Force  bool          `help:"Also ban an address of this node, its gateway or a proxy, which other clients may come through."`
	File   string        `placeholder:"FILE" help:"File with addresses and prefixes to ban, one per line; # begins a comment, - is standard input."`
	Prefix []string      `arg:"" optional:"" help:"Addresses or prefixes, such as 192.0.2.7, 192.0.2.0/24 or 2001:db8::/48. No larger than a /8, or a /16 of IPv6."`
}

// Run implements the command. It bans nothing if one of the prefixes is none; if the node refuses
// one, it goes on with the others.
func (c *banCmd) Run(ctx context.Context, sys *system) error {
	client, err := c.client("ban", sys)
	if err != nil {
		return err
	}
	all, err := c.prefixes(sys)
	if err != nil {
		return err
	}
	var refused []error
	for _, p := range all {
		if err := c.ban(ctx, client, p); err != nil {
			refused = append(refused, err)
		}
	}
	return errors.Join(refused...)
}

func (c *banCmd) ban(ctx context.Context, client *adminClient, prefix string) error {
	body := map[string]any{"key": prefix, "for": c.For.String(), "reason": c.Reason, "force": c.Force}
	return show(ctx, client, http.MethodPost, "/v1/bans", body, "a ban", func(done *bans.Done) string {
		if done.Key == "" {
			return ""
		}
		hint := ""
		if done.Hint != "" {
			hint = "; " + printableLong(done.Hint)
		}
		return fmt.Sprintf("%s: banned, ends in %v%s%s\n", printableLong(done.Key), inSeconds(done.SecondsLeft), stillAllowed(done), hint)
	})
}

// maxBanned bounds a list of prefixes to ban, and how long it may be: a node has no more bans.
const (
	maxBanned     = 10_000
	maxBannedText = 1 << 20
)

// prefixes are those of the command line and of the file, all of which can be banned.
func (c *banCmd) prefixes(sys *system) ([]string, error) {
	type source struct{ where, text string }
	var all []source
	for _, p := range c.Prefix {
		all = append(all, source{"", p})
	}
	if c.File != "" {
		text, err := c.readFile(sys)
		if err != nil {
			return nil, err
		}
		line := 0
		for l := range strings.Lines(text) {
			line++
			l, _, _ = strings.Cut(l, "#")
			if l = strings.TrimSpace(l); l != "" {
				all = append(all, source{fmt.Sprintf("%s:%d: ", c.File, line), l})
			}
		}
	}
	if len(all) == 0 || len(all) > maxBanned {
		return nil, cli.Usagef("%d addresses and prefixes to ban: want 1 to %d, such as 192.0.2.0/24, or --file", len(all), maxBanned)
	}
	prefixes := make([]string, len(all))
	for i, s := range all {
		p, err := bans.ParsePrefix(s.text)
		if err != nil {
			return nil, cli.Usagef("%s%v", s.where, err)
		}
		prefixes[i] = p.String()
	}
	return prefixes, nil
}

func (c *banCmd) readFile(sys *system) (string, error) {
	in := sys.stdin
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return "", fmt.Errorf("fastlimit ban: %w", err)
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxBannedText+1))
	if err == nil && len(b) > maxBannedText {
		err = fmt.Errorf("fastlimit ban: %s: more than %d bytes", c.File, maxBannedText)
	}
	return string(b), err
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
	text := "; not banned, as they are on the allow list: " + strings.Join(shown, ", ")
	if more := d.AllowedEntries - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

type unbanCmd struct {
	adminFlags

	Rule string   `placeholder:"NAME" help:"End only the ban by this rule. Default: bans by an operator and by all rules."`
	Key  []string `arg:"" help:"The client or prefix that is banned, as fastlimit bans shows it."`
}

// Run implements the command.
func (c *unbanCmd) Run(ctx context.Context, sys *system) error {
	client, err := c.client("unban", sys)
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
	return show(ctx, client, http.MethodDelete, "/v1/bans?"+q.Encode(), nil, "the ended bans", func(ended *bans.Ended) string {
		var out strings.Builder
		for _, e := range ended.Unbanned {
			who := "banned by an operator"
			if e.Rule != "" {
				who = "banned by rule " + printable(e.Rule)
			}
			fmt.Fprintf(&out, "%s: unbanned, was %s\n", printableLong(e.Key), who)
		}
		return out.String()
	})
}
