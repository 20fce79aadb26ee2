package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/fastlimit/fastlimit/internal/cli"
	"github.com/fastlimit/fastlimit/internal/keytext"
	"github.com/fastlimit/fastlimit/internal/overrides"
)

// overrideCmd changes limits of single clients on running nodes.
type overrideCmd struct {
	Set    overrideSetCmd    `cmd:"" help:"Give a client a different limit for a while, as in: fastlimit override set per-ip 192.0.2.7 rate=1000/s burst=2000 --for 2h."`
	List   overrideListCmd   `cmd:"" help:"Show the overrides in force, including those in the file."`
	Delete overrideDeleteCmd `cmd:"" help:"End an override that was set with override set."`
}

type overrideSetCmd struct {
	adminFlags

	For   time.Duration `default:"1h" help:"How long it lasts, at most 8784h. Default: 1h."`
	Rule  string        `arg:"" help:"Name of the rule."`
	Words []string      `arg:"" name:"key" help:"The client's key, as fastlimit top shows it; then rate=N/s, burst=N or both, or unlimited. Everything after -- is part of the key."`
}

// Run implements the command.
func (c *overrideSetCmd) Run(ctx context.Context, sys *system) error {
	client, err := c.client("override", sys)
	if err != nil {
		return err
	}
	body := map[string]any{"rule": c.Rule, "for": c.For.String()}
	key, err := splitLimit(c.Words, body)
	if err != nil {
		return err
	}
	body["key"] = key
	return show(ctx, client, http.MethodPut, "/v1/overrides", body, "an override", func(set *overrides.Shown) string {
		if set.SecondsLeft == nil {
			return ""
		}
		return fmt.Sprintf("%s %s: %s, ends in %v\n", printable(set.Rule), shownKey(set.Key), shownLimit(set), inSeconds(*set.SecondsLeft))
	})
}

// splitLimit takes the limit, rate=, burst= or unlimited, off the end of the words; what
// is left is the key.
func splitLimit(words []string, limit map[string]any) (key []string, err error) {
	n := len(words)
	for ; n > 0; n-- {
		name, text, isSetting := strings.Cut(words[n-1], "=")
		switch {
		case isSetting && name == "rate" && limit["rate"] == nil:
			limit["rate"] = text
		case isSetting && name == "burst" && limit["burst"] == nil:
			burst, err := strconv.ParseUint(text, 10, 63)
			if err != nil || burst == 0 {
				return nil, cli.Usagef("burst=%s: want a whole number above 0, for example burst=2000", text)
			}
			limit["burst"] = burst
		case words[n-1] == "unlimited" && limit["unlimited"] == nil && n > 1:
			limit["unlimited"] = true
		default:
			return checkKey(words[:n])
		}
	}
	return checkKey(nil)
}

// checkKey refuses keys that JSON cannot carry.
func checkKey(key []string) ([]string, error) {
	if len(key) == 0 {
		return nil, cli.Usagef("no key: write for example fastlimit override set per-ip 192.0.2.7 rate=1000/s")
	}
	if i := slices.IndexFunc(key, func(k string) bool { return !utf8.ValidString(k) }); i >= 0 {
		return nil, cli.Usagef("key %q: want UTF-8; other bytes cannot be sent", key[i])
	}
	return key, nil
}

type overrideDeleteCmd struct {
	adminFlags

	Rule string   `arg:"" help:"Name of the rule."`
	Key  []string `arg:"" help:"The client's key, as fastlimit top shows it."`
}

// Run implements the command.
func (c *overrideDeleteCmd) Run(ctx context.Context, sys *system) error {
	client, err := c.client("override", sys)
	if err != nil {
		return err
	}
	key, err := checkKey(c.Key)
	if err != nil {
		return err
	}
	path := "/v1/overrides?" + url.Values{"rule": {c.Rule}, "key": key}.Encode()
	return show(ctx, client, http.MethodDelete, path, nil, "the deleted override", func(done *struct{ Deleted bool }) string {
		if !done.Deleted {
			return ""
		}
		return fmt.Sprintf("%s %s: deleted\n", printable(c.Rule), shownKey(key))
	})
}

type overrideListCmd struct {
	adminFlags

	Rule string `arg:"" optional:"" help:"Name of the rule. Default: all."`
}

// Run implements the command.
func (c *overrideListCmd) Run(ctx context.Context, sys *system) error {
	client, err := c.client("override", sys)
	if err != nil {
		return err
	}
	path := "/v1/overrides?" + url.Values{"rule": {c.Rule}}.Encode()
	return show(ctx, client, http.MethodGet, path, nil, "a list of overrides", overridesText)
}

func overridesText(list *overrides.List) string {
	if list.Overrides == nil {
		return ""
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RULE\tKEY\tLIMIT\tSOURCE\tENDS IN\tBY\tPROBLEM")
	files := 0
	for i := range list.Overrides {
		o := &list.Overrides[i]
		left := "-"
		if o.SecondsLeft != nil {
			left = inSeconds(*o.SecondsLeft).String()
		}
		if o.Source == "file" {
			files++
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", printable(o.Rule), shownKey(o.Key), shownLimit(o), printable(o.Source), left, printable(o.By), printableLong(o.Problem))
	}
	w.Flush()
	if files >= overrides.MaxShown {
		fmt.Fprintf(&out, "and more from the file, which has %d\n", list.File)
	}
	return out.String()
}

func shownKey(key []string) string { return keytext.JoinCut(key, maxShownKey) }

func shownLimit(o *overrides.Shown) string {
	var words []string
	if o.Unlimited {
		words = append(words, "unlimited")
	}
	if o.Rate != "" {
		words = append(words, "rate="+printable(o.Rate))
	}
	if o.Burst != 0 {
		words = append(words, "burst="+strconv.FormatUint(o.Burst, 10))
	}
	return strings.Join(words, " ")
}
