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

	"github.com/fastlimit/fastlimit/internal/cli"
	"github.com/fastlimit/fastlimit/internal/liverules"
)

// ruleCmd changes a rule of a running node for a while.
type ruleCmd struct {
	adminFlags

	For      time.Duration `help:"How long it lasts, 1s to 8784h. Default: 1h."`
	AllNodes bool          `help:"Change the rule on all nodes of the cluster that have accept_rules."`
	Undo     bool          `help:"Undo the change: the rule is as in the file again."`
	Rule     string        `arg:"" optional:"" help:"Name of the rule. Default: show all."`
	Words    []string      `arg:"" optional:"" name:"setting" help:"What to change: mode=shadow, mode=enforce, rate=N/s, burst=N."`
}

// Run implements the command.
func (c *ruleCmd) Run(ctx context.Context, sys *system) error {
	client, err := c.client("rule", sys)
	if err != nil {
		return err
	}
	method, path, body := http.MethodGet, "/v1/rules", any(nil)
	switch {
	case c.Undo && (len(c.Words) > 0 || c.For != 0 || c.Rule == ""):
		return cli.Usagef("--undo: name a rule and nothing else, as in: fastlimit rule per-ip --undo")
	case c.For != 0 && len(c.Words) == 0:
		return cli.Usagef("--for %v: nothing to change; write for example fastlimit rule per-ip mode=shadow --for 30m", c.For)
	case c.Undo:
		method, path = http.MethodDelete, "/v1/rules/"+url.PathEscape(c.Rule)
		if c.AllNodes {
			path += "?all_nodes=true"
		}
	case c.AllNodes && len(c.Words) == 0:
		return cli.Usagef("--all-nodes: nothing to change; write for example fastlimit rule per-ip mode=shadow --all-nodes")
	case len(c.Words) > 0:
		method, path = http.MethodPatch, "/v1/rules/"+url.PathEscape(c.Rule)
		if body, err = c.change(); err != nil {
			return err
		}
	}
	if method == http.MethodGet {
		answer, err := client.do(ctx, method, path, nil)
		if err != nil {
			return err
		}
		return c.show(client, answer, sys.stdout)
	}
	var one *liverules.Shown
	err = show(ctx, client, method, path, body, "a rule", func(shown *liverules.Shown) string {
		if one = shown; one.Mode == "" {
			return ""
		}
		return fmt.Sprintf("%s: %s\n", printable(one.Rule), ruleText(one))
	})
	if err != nil || client.json {
		return err
	}
	return c.others(one, sys.stdout)
}

// change is the body that asks for a change.
func (c *ruleCmd) change() (map[string]any, error) {
	body := map[string]any{}
	if c.For != 0 {
		body["for"] = c.For.String()
	}
	if c.AllNodes {
		body["all_nodes"] = true
	}
	for _, w := range c.Words {
		name, text, _ := strings.Cut(w, "=")
		switch {
		case body[name] != nil:
			return nil, cli.Usagef("%s: %s is given twice", w, name)
		case text != "" && (name == "mode" || name == "rate"):
			body[name] = text
		case text != "" && name == "burst":
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return nil, cli.Usagef("%s: want a whole number above 0, for example burst=200", w)
			}
			body[name] = n
		default:
			return nil, cli.Usagef("%s: want mode=shadow, mode=enforce, rate=N/s or burst=N", w)
		}
	}
	return body, nil
}

// show prints all rules, or the one that was named.
func (c *ruleCmd) show(client *adminClient, answer []byte, to io.Writer) error {
	var list liverules.List
	if json.Unmarshal(answer, &list) != nil || list.Rules == nil {
		return client.stranger("a list of rules")
	}
	if c.Output == "json" && c.Rule == "" {
		_, err := to.Write(answer)
		return err
	}
	var names []string
	shown := list.Rules[:0:0]
	for _, r := range list.Rules {
		names = append(names, printable(r.Rule))
		if c.Rule == "" || c.Rule == r.Rule {
			shown = append(shown, r)
		}
	}
	if len(shown) == 0 {
		return fmt.Errorf("fastlimit rule: no rule %q; %s has %s", c.Rule, c.Admin, strings.Join(names, ", "))
	}
	if c.Output == "json" {
		return json.NewEncoder(to).Encode(&shown[0])
	}
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RULE\tMODE\tLIMIT\tFILE\tENDS IN\tBY")
	for i := range shown {
		r := &shown[i]
		file, left := "-", "-"
		if r.SecondsLeft != nil {
			file, left = r.File.Mode+", "+limitText(&r.File), inSeconds(*r.SecondsLeft).String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", printable(r.Rule), printable(r.Mode), limitText(&r.Limit), file, left, printable(r.By))
	}
	w.Flush()
	_, err := out.WriteTo(to)
	return err
}

// others says what the other nodes have made of a change. That some have not followed is a failure
// for scripts.
func (c *ruleCmd) others(r *liverules.Shown, to io.Writer) error {
	behind := 0
	for _, n := range r.Nodes {
		text := "the same"
		if !n.Follows {
			text = printableLong(n.Problem)
			behind++
		}
		if _, err := fmt.Fprintf(to, "node %s: %s\n", printable(n.Node), text); err != nil {
			return err
		}
	}
	if behind > 0 {
		return fmt.Errorf("fastlimit rule: %d of %d other nodes have not applied the change; a node that was away does when it is back", behind, len(r.Nodes))
	}
	return nil
}

// ruleText is a rule in a line.
func ruleText(r *liverules.Shown) string {
	now := fmt.Sprintf("%s, %s", printable(r.Mode), limitText(&r.Limit))
	if r.SecondsLeft == nil {
		return now + ", as in the file"
	}
	return fmt.Sprintf("%s for %v, then %s, %s again", now, inSeconds(*r.SecondsLeft), printable(r.File.Mode), limitText(&r.File))
}

func limitText(l *liverules.Limit) string {
	return fmt.Sprintf("%s burst %d", printable(l.Rate), l.Burst)
}
