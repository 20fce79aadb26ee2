package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fastlimit/fastlimit/internal/cli"
	"github.com/fastlimit/fastlimit/internal/safetext"
	"github.com/fastlimit/fastlimit/toptalkers"
	"golang.org/x/term"
)

// topCmd asks a running node over HTTP, as a monitoring system would: it needs no
// configuration file and no rights on the machine, just a way to the admin listener.
type topCmd struct {
	Admin  string        `default:"127.0.0.1:8081" placeholder:"ADDR" help:"Admin address of a running node, host:port or unix:/path; in a cluster, of any node. Default: 127.0.0.1:8081."`
	N      int           `short:"n" default:"20" help:"Number of clients to show."`
	Watch  bool          `help:"Refresh until interrupted."`
	Every  time.Duration `default:"2s" help:"Refresh interval with --watch."`
	Output string        `short:"o" enum:"text,json" default:"text" help:"Output format: text or json."`
}

const (
	clearScreen  = "\x1b[H\x1b[2J" // cursor home, erase display
	maxShownKey  = 80              // bytes; header values may be kilobytes long
	minTopRepeat = 100 * time.Millisecond
)

// Run implements the command.
func (c *topCmd) Run(ctx context.Context, sys *system) error {
	if err := checkAdmin(c.Admin); err != nil {
		return err
	}
	if c.N < 1 {
		return cli.Usagef("-n %d: want 1 or more", c.N)
	}
	if c.Every < minTopRepeat {
		return cli.Usagef("--every %v: want %v or more", c.Every, minTopRepeat)
	}
	if !c.Watch {
		return c.show(ctx, sys.stdout, "")
	}
	before := "\n" // between tables in a pipe
	if f, ok := sys.stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		before = clearScreen
	}
	return cli.Signalled(ctx, cli.SignalHooks{Grace: interruptGrace}, func(ctx context.Context) error {
		// The first failure ends it, so a script notices; a terminal keeps the last
		// table, since only the next one clears the screen.
		for first := true; ; first = false {
			lead := before
			if first && before != clearScreen || c.Output == "json" {
				lead = ""
			}
			if err := c.show(ctx, sys.stdout, lead); err != nil {
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

// show asks once and writes the answer behind lead. JSON is passed on as the node sent
// it: newer nodes may have fields that this program does not know.
func (c *topCmd) show(ctx context.Context, w io.Writer, lead string) error {
	client := adminClient{command: "top", admin: c.Admin}
	body, err := client.do(ctx, http.MethodGet, "/v1/top?n="+strconv.Itoa(c.N), nil)
	if err != nil {
		return err
	}
	var reply struct {
		Clients []toptalkers.Talker `json:"clients"`
	}
	// Other services on that port may answer 200 with JSON too: clients must be there,
	// if only as an empty list.
	if json.Unmarshal(body, &reply) != nil || reply.Clients == nil {
		return client.stranger("a list of clients")
	}
	if c.Output == "json" {
		_, err = w.Write(body)
		return err
	}
	var out bytes.Buffer // so that a terminal does not flicker
	out.WriteString(lead)
	writeTop(&out, reply.Clients)
	_, err = w.Write(out.Bytes())
	return err
}

// writeTop shows rates as in "12.0 ±0.5": the tables count with a known error, and two
// clients whose intervals overlap may rank the other way round.
func writeTop(out io.Writer, clients []toptalkers.Talker) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RULE\tCLIENT\tUNITS/S\t±\tNODES")
	for _, t := range clients {
		fmt.Fprintf(w, "%s\t%s\t%.1f\t%.1f\t%s\n",
			printable(t.Rule), printable(t.Key), t.Rate, t.Error, printable(strings.Join(t.Nodes, ",")))
	}
	w.Flush()
}

// printable escapes a server's text so that it cannot control the terminal. Keys hold
// headers and paths, which any client chooses.
func printable(s string) string { return safetext.Quote(s, maxShownKey) }
