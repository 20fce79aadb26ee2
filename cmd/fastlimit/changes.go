package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fastlimit/fastlimit/internal/audit"
	"github.com/fastlimit/fastlimit/internal/cli"
)

// changesCmd shows what operators and reloads have changed.
type changesCmd struct {
	adminFlags

	N int `short:"n" default:"20" help:"The most changes to show, up to 1000."`
}

// Run implements the command.
func (c *changesCmd) Run(ctx context.Context, sys *system) error {
	if c.N < 1 {
		return cli.Usagef("-n %d: want 1 to 1000", c.N)
	}
	client, err := c.client("changes", sys)
	if err != nil {
		return err
	}
	return show(ctx, client, http.MethodGet, fmt.Sprintf("/v1/changes?limit=%d", c.N), nil, "a list of changes", changesText)
}

func changesText(list *audit.List) string {
	if list.Changes == nil {
		return ""
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TIME\tBY\tCHANGE\tDETAILS")
	for i := range list.Changes {
		c := &list.Changes[i]
		var details []string
		for _, name := range slices.Sorted(maps.Keys(c.Details)) {
			details = append(details, printable(name)+"="+printableLong(c.Details[name]))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.Time.UTC().Format(time.RFC3339), printable(c.By), printable(c.What), strings.Join(details, " "))
	}
	w.Flush()
	if more := list.Total - len(list.Changes); more > 0 {
		fmt.Fprintf(&out, "and %d more\n", more)
	}
	return out.String()
}
