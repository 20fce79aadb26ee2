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
	answer, err := client.do(ctx, http.MethodPost, "/v1/reload", nil)
	if err == nil && !client.json {
		answer = []byte("reloaded\n")
	}
	return write(sys.stdout, answer, err)
}
