package main

import (
	"context"
	"net/http"
)

// reloadCmd has a running node read its configuration again.
type reloadCmd struct{ adminFlags }

// Run implements the command.
func (c *reloadCmd) Run(ctx context.Context, sys *system) error {
	client, err := c.client("reload", sys)
	if err != nil {
		return err
	}
	return show(ctx, client, http.MethodPost, "/v1/reload", nil, "that it reloaded", func(done *struct{ Reloaded bool }) string {
		if !done.Reloaded {
			return ""
		}
		return "reloaded\n"
	})
}
