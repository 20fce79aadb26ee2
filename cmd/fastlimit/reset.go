package main

import (
	"context"
	"encoding/json"
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
	client, err := c.client("reset")
	if err != nil {
		return err
	}
	key, err := checkKey(c.Key)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"rule": c.Rule, "key": key})
	if err != nil {
		return err
	}
	answer, err := client.do(ctx, http.MethodPost, "/v1/reset", body)
	if err != nil || c.Output == "json" {
		return write(sys.stdout, answer, err)
	}
	var done struct {
		Rule, Key string
		Hint      string
	}
	if json.Unmarshal(answer, &done) != nil || done.Key == "" {
		return client.stranger("the emptied bucket")
	}
	if done.Hint != "" {
		done.Hint = "; " + done.Hint
	}
	_, err = fmt.Fprintf(sys.stdout, "%s %s: its bucket is empty%s\n", printable(done.Rule), printableLong(done.Key), printableLong(done.Hint))
	return err
}
