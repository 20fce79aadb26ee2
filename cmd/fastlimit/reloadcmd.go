package main

import (
	"context"
	"fmt"
	"net/http"
)

// reloadCmd has a running node read its configuration again.
type reloadCmd struct{ adminFlags }

// Run implements the command.
func (c *reloadCmd) Run(ctx context.Context, sys *system) error {
	client, err := c.client("reload")
	if err != nil {
		return err
	}
	answer, err := client.do(ctx, http.MethodPost, "/v1/reload", nil)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return write(sys.stdout, answer, nil)
	}
	return write(sys.stdout, fmt.Appendln(nil, "reloaded"), nil)
}
