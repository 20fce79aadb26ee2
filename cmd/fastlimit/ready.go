package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// readyCmd asks /readyz, for supervisors that run a program and do not reach admin, such as
// Kubernetes where admin is on loopback. /readyz needs no token.
type readyCmd struct {
	Admin string `default:"127.0.0.1:8081" placeholder:"ADDR" help:"Admin address of a running node, host:port or unix:/path. Default: 127.0.0.1:8081."`
}

const readyAnswer = "ok\n"

// Run implements the command.
func (c *readyCmd) Run(ctx context.Context, sys *system) error {
	if err := checkAdmin(c.Admin); err != nil {
		return err
	}
	client := &adminClient{command: "ready", admin: c.Admin}
	resp, answer, err := client.ask(ctx, http.MethodGet, "/readyz", nil)
	switch {
	case err != nil:
		return err
	case resp.StatusCode == http.StatusOK && string(answer) == readyAnswer:
		_, err := fmt.Fprintln(sys.stdout, "ready")
		return err
	case resp.StatusCode == http.StatusServiceUnavailable:
		return fmt.Errorf("fastlimit ready: %s is not ready: %s", c.Admin, printableLong(strings.TrimSpace(string(answer))))
	}
	return client.stranger("its readiness")
}
