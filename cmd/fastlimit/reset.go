package main

import (
	"context"
	"fmt"
	"net/http"
)

// resetCmd forgives a client what it has used.
type resetCmd struct {
	adminFlags

	Rule string   `arg:"" help:"Name of the rule."`
	Key  []string `arg:"" help:"The client's key, as fastlimit top shows it."`
}

// Run implements the command.
func (c *resetCmd) Run(ctx context.Context, sys *system) error {
	client, err := c.client("reset", sys)
	if err != nil {
		return err
	}
	key, err := checkKey(c.Key)
	if err != nil {
		return err
	}
	body := map[string]any{"rule": c.Rule, "key": key}
	return show(ctx, client, http.MethodPost, "/v1/reset", body, "the emptied bucket", func(done *struct{ Rule, Key, Hint string }) string {
		if done.Key == "" {
			return ""
		}
		if done.Hint != "" {
			done.Hint = "; " + done.Hint
		}
		return fmt.Sprintf("%s %s: its bucket is empty%s\n", printable(done.Rule), printableLong(done.Key), printableLong(done.Hint))
	})
}
