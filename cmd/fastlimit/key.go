package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"unicode/utf8"

	"github.com/fastlimit/fastlimit/internal/cli"
)

// maxKeyValue bounds what is read of stdin: no header is longer.
const maxKeyValue = 8 << 10

// keyCmd shows what stands for a secret in top, bans and the log.
type keyCmd struct {
	adminFlags

	Value string `arg:"" help:"The value of a header or a cookie; - reads it from standard input, so that it does not appear in process lists."`
}

// Run implements the command.
func (c *keyCmd) Run(ctx context.Context, sys *system) error {
	client, err := c.client("key", sys)
	if err != nil {
		return err
	}
	value := []byte(c.Value)
	if c.Value == "-" {
		if value, err = io.ReadAll(io.LimitReader(sys.stdin, maxKeyValue+1)); err != nil {
			return fmt.Errorf("standard input: %w", err)
		}
		value = bytes.TrimRight(value, "\r\n")
	}
	if len(value) == 0 || len(value) > maxKeyValue || !utf8.Valid(value) {
		return cli.Usagef("the value has %d bytes: want 1 to %d, in UTF-8", len(value), maxKeyValue)
	}
	body := map[string]string{"value": string(value)}
	return show(ctx, client, http.MethodPost, "/v1/key", body, "a key", func(shown *struct{ Key string }) string {
		if shown.Key == "" {
			return ""
		}
		return printable(shown.Key) + "\n"
	})
}
