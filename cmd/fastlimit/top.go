package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/fastlimit/fastlimit/internal/cli"
	"github.com/fastlimit/fastlimit/internal/safetext"
	"github.com/fastlimit/fastlimit/internal/screen"
	"github.com/fastlimit/fastlimit/internal/top"
	"golang.org/x/term"
)

// topCmd asks a running node over HTTP, as a monitoring system would: it needs no
// configuration file and no rights on the machine, just a way to the admin listener.
type topCmd struct {
	Admin     string        `default:"127.0.0.1:8081" placeholder:"ADDR" help:"Admin address of a running node, host:port or unix:/path. In a cluster, any node will do. Default: 127.0.0.1:8081."`
	N         int           `short:"n" default:"20" help:"Number of clients to print."`
	Sort      string        `enum:"rate,denied,share,key" default:"rate" help:"What to sort by: rate, denied, share (of the limit) or key."`
	By        string        `enum:"client,net,path,method,agent,status" default:"client" help:"Show the clients of rules (client) or what the whole load is made of: net (addresses and networks), path, method, agent (User-Agent) or status."`
	Rule      string        `help:"Show only the clients of this rule."`
	Once      bool          `help:"Print one table, even on a terminal, where the default is a live screen."`
	Watch     bool          `help:"Print one table after another until interrupted, if there is no live screen."`
	Every     time.Duration `default:"1s" help:"Refresh interval. Default: 1s."`
	TokenFile string        `placeholder:"FILE" help:"File with a token for admin, if reading needs one."`
	Output    string        `short:"o" enum:"text,json" default:"text" help:"Output format: text or json."`
}

const (
	clearScreen  = "\x1b[H\x1b[2J" // cursor home, erase display
	maxShownKey  = 80              // bytes; header values may be kilobytes long
	minTopRepeat = 100 * time.Millisecond
	byClient     = "client"
)

// Run implements the command.
func (c *topCmd) Run(ctx context.Context, sys *system) error {
	if err := c.check(); err != nil {
		return err
	}
	if in, out, ok := c.terminal(sys); ok {
		return c.onScreen(ctx, in, out, noColor(sys))
	}
	before := "\n" // between tables in a pipe
	f, isFile := sys.stdout.(*os.File)
	onTerminal := isFile && term.IsTerminal(int(f.Fd()))
	if onTerminal {
		before = clearScreen
	}
	if !c.Watch && (c.By == byClient || c.Once || !onTerminal || c.Output == "json") {
		return c.print(ctx, sys.stdout, "")
	}
	return cli.Signalled(ctx, cli.SignalHooks{Grace: interruptGrace}, func(ctx context.Context) error {
		// The first failure ends it, so a script notices; a terminal keeps the last
		// table, since only the next one clears the screen.
		for first := true; ; first = false {
			lead := before
			if first && before != clearScreen || c.Output == "json" {
				lead = ""
			}
			if err := c.print(ctx, sys.stdout, lead); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(c.Every):
			}
		}
	})
}

func (c *topCmd) check() error {
	if err := checkAdmin(c.Admin); err != nil {
		return err
	}
	if c.N < 1 {
		return cli.Usagef("-n %d: want 1 or more", c.N)
	}
	if c.Every < minTopRepeat {
		return cli.Usagef("--every %v: want %v or more", c.Every, minTopRepeat)
	}
	if c.Once && c.Watch {
		return cli.Usagef("--once prints one table, and --watch one after another: remove one of the two")
	}
	if c.By != byClient && (c.Rule != "" || c.Sort != top.ByRate) {
		return cli.Usagef("--by covers all requests, the largest group first: remove --rule and --sort")
	}
	return nil
}

// terminal returns the terminal that the screen is to be on, if it is to be on one.
func (c *topCmd) terminal(sys *system) (in, out *os.File, ok bool) {
	in, isFile := sys.stdin.(*os.File)
	out, isFileToo := sys.stdout.(*os.File)
	if c.Once || c.By != byClient || c.Output != "text" || !isFile || !isFileToo {
		return nil, nil, false
	}
	name, _ := sys.lookupEnv("TERM")
	return in, out, screen.Capable(in, out, name)
}

// noColor reports whether the user wants no colors (https://no-color.org).
func noColor(sys *system) bool {
	v, _ := sys.lookupEnv("NO_COLOR")
	return v != ""
}

// ask asks for n clients once.
func (c *topCmd) ask(ctx context.Context, n int, order, rule string) (d *top.Document, body []byte, err error) {
	q := url.Values{"n": {strconv.Itoa(n)}}
	if order != top.ByRate { // which nodes of all versions know
		q.Set("sort", order)
	}
	if rule != "" {
		q.Set("rule", rule)
	}
	return askTop(ctx, c, q, "a list of clients", top.Decode)
}

// askGroups asks what the load is made of.
func (c *topCmd) askGroups(ctx context.Context) (g *top.Groups, body []byte, err error) {
	return askTop(ctx, c, url.Values{"n": {strconv.Itoa(c.N)}, "by": {c.By}}, "a list of groups", top.DecodeGroups)
}

// askTop asks once. The document is of body, which is passed on with -o json as the node sent
// it: newer nodes may have fields that this program does not know.
func askTop[D any](ctx context.Context, c *topCmd, q url.Values, what string, decode func(body []byte) (D, error)) (d D, body []byte, err error) {
	token, err := readToken(c.TokenFile)
	if err != nil {
		return d, nil, err
	}
	client := adminClient{command: "top", admin: c.Admin, token: token}
	if body, err = client.do(ctx, http.MethodGet, "/v1/top?"+q.Encode(), nil); err != nil {
		return d, nil, err
	}
	if d, err = decode(body); err != nil {
		return d, nil, client.stranger(what)
	}
	return d, body, nil
}

// table is what a node has answered.
type table interface {
	Write(out io.Writer) error
}

// print asks once and writes the answer behind lead.
func (c *topCmd) print(ctx context.Context, w io.Writer, lead string) (err error) {
	var t table
	var body []byte
	if c.By == byClient {
		t, body, err = c.ask(ctx, c.N, c.Sort, c.Rule)
	} else {
		t, body, err = c.askGroups(ctx)
	}
	if err != nil {
		return err
	}
	if c.Output == "json" {
		_, err = w.Write(body)
		return err
	}
	out := bytes.NewBufferString(lead) // so that a terminal does not flicker
	if err := t.Write(out); err != nil {
		return err
	}
	_, err = w.Write(out.Bytes())
	return err
}

// printable escapes a server's text so that it cannot control the terminal. Keys hold
// headers and paths, which any client chooses.
func printable(s string) string { return safetext.Quote(s, maxShownKey) }
