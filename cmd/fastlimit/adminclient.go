package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/fastlimit/fastlimit/internal/cli"
	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/internal/safetext"
)

const (
	adminTimeout  = 5 * time.Second
	maxAdminBytes = 4 << 20 // of an answer: whatever listens there may send without end
	maxTokenBytes = 4 << 10
)

// adminClient asks the admin listener of a running node for a command.
type adminClient struct {
	command, admin string
	token          string // "": none is sent

	out  io.Writer // of show
	json bool      // it prints answers as they are
}

// adminFlags are those of commands that change something on a running node.
type adminFlags struct {
	Admin     string `default:"127.0.0.1:8081" placeholder:"ADDR" help:"Admin address of a running node. Bans apply to this node only; overrides apply to every node that shares its store. Default: 127.0.0.1:8081."`
	TokenFile string `placeholder:"FILE" help:"File with a token for admin; changes need one unless admin is on loopback."`
	Output    string `short:"o" enum:"text,json" default:"text" help:"Output format: text or json."`
}

// client is for the command of that name.
func (f *adminFlags) client(command string, sys *system) (*adminClient, error) {
	if err := checkAdmin(f.Admin); err != nil {
		return nil, err
	}
	token, err := readToken(f.TokenFile)
	return &adminClient{command: command, admin: f.Admin, token: token, out: sys.stdout, json: f.Output == "json"}, err
}

// show asks, and prints the answer: with --output json as it is, else what text makes of it. That
// is "" if the answer is not what want says, which is an error in both formats.
func show[T any](ctx context.Context, c *adminClient, method, path string, body any, want string, text func(*T) string) error {
	answer, err := c.do(ctx, method, path, body)
	if err != nil {
		return err
	}
	var v T
	if json.Unmarshal(answer, &v) == nil {
		if shown := text(&v); shown != "" {
			if !c.json {
				answer = []byte(shown)
			}
			_, err = c.out.Write(answer)
			return err
		}
	}
	return c.stranger(want)
}

// inSeconds is a time that an answer has in seconds.
func inSeconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Second)
}

// printableLong is printable for a sentence.
func printableLong(s string) string { return safetext.Quote(s, 1000) }

// checkAdmin checks the flag --admin.
func checkAdmin(admin string) error {
	if _, _, err := net.SplitHostPort(admin); err != nil && !onSocket(admin) {
		return cli.Usagef("--admin %s: want host:port, for example 127.0.0.1:8081", admin)
	}
	return nil
}

// onSocket reports whether an admin listener is on a Unix socket.
func onSocket(admin string) bool { return strings.HasPrefix(admin, "unix:/") }

// socketClient asks whatever listens on a path.
func socketClient(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
}

// readToken reads what --token-file names; "" means that there is none.
func readToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxTokenBytes+1))
	token := strings.TrimRight(string(b), "\r\n")
	if err == nil && (token == "" || len(b) > maxTokenBytes || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })) {
		err = fmt.Errorf("%s does not contain a token: want one line of printable characters without spaces", path)
	}
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	return token, nil
}

// ask returns an answer, of any status. A body is sent as JSON.
func (c *adminClient) ask(ctx context.Context, method, path string, body []byte) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	client, host := http.DefaultClient, c.admin
	if onSocket(c.admin) {
		client, host = socketClient(strings.TrimPrefix(c.admin, "unix:")), "localhost"
		defer client.CloseIdleConnections()
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+host+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, cli.Usagef("--admin %s: want host:port, for example %s", c.admin, config.DefaultAdmin)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil, c.unreachable(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAdminBytes))
	if err != nil {
		return nil, nil, c.unreachable(err)
	}
	return resp, answer, nil
}

// do returns the body of an answer that is 200. It sends what is not nil as JSON.
func (c *adminClient) do(ctx context.Context, method, path string, what any) ([]byte, error) {
	var body []byte
	if what != nil {
		var err error
		if body, err = json.Marshal(what); err != nil {
			return nil, err
		}
	}
	resp, answer, err := c.ask(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return answer, nil
	}
	// The admin listener explains its errors, such as that no top talkers are tracked.
	var problem struct {
		Detail string
		Errors []string // if it has several
	}
	if err := json.Unmarshal(answer, &problem); err != nil || problem.Detail == "" {
		path, _, _ := strings.Cut(path, "?")
		return nil, fmt.Errorf("fastlimit %s: %s answered %s: is it the admin listener of a fastlimit with %s?", c.command, c.admin, resp.Status, path)
	}
	if len(problem.Errors) > 0 { // each on a line, with its place in front, which editors jump to
		var lines []string
		for _, e := range problem.Errors {
			lines = append(lines, printableLong(e))
		}
		return nil, errors.New(strings.Join(lines, "\n"))
	}
	return nil, fmt.Errorf("fastlimit %s: %s: %s", c.command, c.admin, printableLong(problem.Detail))
}

// unreachable adds what to do to an error of the request. It drops the URL that package
// http puts in front of every error, which is no input of the user's.
func (c *adminClient) unreachable(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT) && onSocket(c.admin):
		return fmt.Errorf("fastlimit %s: nothing listens on %s; start fastlimit serve, or name its admin address with --admin", c.command, c.admin)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("fastlimit %s: no answer from %s in %v; name the admin address with --admin", c.command, c.admin, adminTimeout)
	}
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return fmt.Errorf("fastlimit %s: %s: %w; name the admin address with --admin", c.command, c.admin, dns)
	case errors.As(err, &op):
		return fmt.Errorf("fastlimit %s: %s: %w; name the admin address with --admin", c.command, c.admin, op.Err)
	}
	return fmt.Errorf("fastlimit %s: %s does not answer as an admin listener: %w", c.command, c.admin, err)
}

// stranger is the error for an answer that is not what was asked for: another program may
// listen there, and answer 200 with JSON too.
func (c *adminClient) stranger(want string) error {
	return fmt.Errorf("fastlimit %s: %s did not answer with %s: is it the admin listener of fastlimit?", c.command, c.admin, want)
}
