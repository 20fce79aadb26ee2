package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/cli"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/pty"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
	"github.com/fastlimit/fastlimit/internal/top"
	"golang.org/x/sys/unix"
)

// onTerminal is fastlimit top on a terminal of its own.
type onTerminal struct {
	*exec.Cmd
	front, back *os.File
	shown, errs testkit.Log
	before      unix.Termios // the modes of the terminal
}

func startTop(t *testing.T, env []string, args ...string) *onTerminal {
	t.Helper()
	p := new(onTerminal)
	p.front, p.back = pty.Open(t, 80, 16)
	p.before = pty.Modes(t, p.back)
	go func() { _, _ = io.Copy(&p.shown, p.front) }() // ends with the terminal
	p.Cmd = exec.CommandContext(t.Context(), binary, append([]string{"top", "--every", "100ms"}, args...)...)
	p.Env = append(os.Environ(), append([]string{"TERM=xterm", "NO_COLOR="}, env...)...)
	p.Stdin, p.Stdout, p.Stderr = p.back, p.back, &p.errs
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// sees waits for a text on the screen from now on.
func (p *onTerminal) sees(t *testing.T, text string) {
	t.Helper()
	from := len(p.shown.String())
	redistest.Eventually(t, "the screen shows "+text, func() bool { return strings.Contains(p.shown.String()[from:], text) })
}

func (p *onTerminal) types(t *testing.T, keys string) {
	t.Helper()
	if _, err := io.WriteString(p.front, keys); err != nil {
		t.Fatal(err)
	}
}

// fakeTop answers as an admin listener does, with the query as the key of a client.
func fakeTop(t *testing.T) (addr string, asked *atomic.Int64, away *atomic.Bool) {
	t.Helper()
	asked, away = new(atomic.Int64), new(atomic.Bool)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, `{"clients":[{"rule":"r","key":%q,"rate":30,"error":0,"denied":20,"limit":10,"share":3,"mode":"enforce","nodes":["a"]}],`+
			`"totals":{"requests":30,"admitted":10,"denied":20,"rules":[{"rule":"r","mode":"enforce","admitted":10,"denied":20}],"uptime_seconds":5}}`, r.URL.RawQuery)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), asked, away
}

// However it ends, the terminal is as it was, with what stood there before.
func TestTopGivesTheTerminalBack(t *testing.T) {
	t.Parallel()
	const leave = "\x1b[m\x1b[?25h\x1b[?7h\x1b[?1049l"
	for name, tt := range map[string]struct {
		key    string
		signal syscall.Signal
		code   int
	}{
		"q":       {key: "q"},
		"ctrl-c":  {key: "\x03"},
		"SIGINT":  {signal: syscall.SIGINT, code: cli.ExitInterrupted},
		"SIGTERM": {signal: syscall.SIGTERM, code: 143},
		"SIGHUP":  {signal: syscall.SIGHUP, code: 129},
		"SIGQUIT": {signal: syscall.SIGQUIT, code: 131},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, _, _ := fakeTop(t)
			p := startTop(t, nil, "--admin", addr)
			p.sees(t, "RATE/S")
			if pty.Modes(t, p.back) == p.before {
				t.Error("it is not in raw mode")
			}
			if tt.key != "" {
				p.types(t, tt.key)
			} else if err := p.Process.Signal(tt.signal); err != nil {
				t.Fatal(err)
			}
			_ = p.Wait() // the code tells
			if code := p.ProcessState.ExitCode(); code != tt.code || pty.Modes(t, p.back) != p.before {
				t.Errorf("exit %d, want %d; modes %+v, were %+v", code, tt.code, pty.Modes(t, p.back), p.before)
			}
			redistest.Eventually(t, "the screen of before", func() bool { return strings.HasSuffix(p.shown.String(), leave) })
			if strings.Contains(p.errs.String(), "goroutine") {
				t.Errorf("%s", p.errs.String())
			}
		})
	}
}

// Keys and sizes change what is shown at once; a node that is away is waited for.
func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	addr, asked, away := fakeTop(t)
	p := startTop(t, nil, "--admin", addr)
	p.sees(t, "n=200 ")
	p.types(t, "d")
	p.sees(t, "n=200&sort=denied ")
	p.types(t, "f")
	p.sees(t, "n=200&rule=r&sort=denied ")
	p.sees(t, "\x1b[31m")
	away.Store(true)
	p.sees(t, "no answer for ")
	away.Store(false)
	p.sees(t, "30.0\x1b[m requests/s")
	pty.Resize(t, p.front, 26, 10)
	p.sees(t, "…") // lines are cut
	p.types(t, "p")
	p.sees(t, "CLIENT")
	n := asked.Load() // one may be on its way
	p.types(t, "h")
	p.sees(t, "any key: back")
	p.types(t, "hk")
	p.sees(t, "CLIENT▼")
	drawn := func() int { return strings.Count(p.shown.String(), "\x1b[H") } // at each tick, too
	from := drawn()
	redistest.Eventually(t, "five ticks", func() bool { return drawn() >= from+5 })
	if more := asked.Load() - n; more > 1 {
		t.Errorf("asked %d times while it is paused", more)
	}
	p.types(t, "q")
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
}

// An answer to what was asked before a pause changes nothing either.
func TestTopTakesNothingWhilePaused(t *testing.T) {
	t.Parallel()
	s := new(topScreen)
	text := func() (all string) {
		for _, l := range s.view.Lines(80, 10, time.Now()) {
			all += l.Text()
		}
		return all
	}
	s.take(topAnswer{doc: &top.Document{Clients: []top.Client{{Key: "first"}}}})
	s.view.Press('p')
	s.take(topAnswer{doc: &top.Document{Clients: []top.Client{{Key: "second"}}}})
	if got := text(); !strings.Contains(got, "first") || strings.Contains(got, "second") {
		t.Error(got)
	}
}

// Nobody asked for a screen who wants one table, no colors who says so.
func TestTopPrintsOnATerminal(t *testing.T) {
	t.Parallel()
	addr, _, away := fakeTop(t)
	for _, tt := range []struct {
		env, args []string
	}{
		{nil, []string{"--once"}}, {nil, []string{"-o", "json"}}, {[]string{"TERM=dumb"}, nil},
	} {
		p := startTop(t, tt.env, append(tt.args, "--admin", addr)...)
		if err := p.Wait(); err != nil {
			t.Fatal(err)
		}
		redistest.Eventually(t, "the table", func() bool { return strings.Contains(p.shown.String(), "n=20") })
		if strings.Contains(p.shown.String(), "\x1b") {
			t.Errorf("%v: %q", tt.args, p.shown.String())
		}
	}
	p := startTop(t, []string{"NO_COLOR=1"}, "--admin", addr)
	p.sees(t, "RATE/S")
	p.types(t, "q")
	if err := p.Wait(); err != nil || strings.Contains(p.shown.String(), "\x1b[3") {
		t.Errorf("%v %q", err, p.shown.String())
	}
	away.Store(true) // from the start: nothing to wait for
	p = startTop(t, nil, "--admin", addr)
	_ = p.Wait()
	if code := p.ProcessState.ExitCode(); code != cli.ExitFailure || p.shown.String() != "" || !strings.Contains(p.errs.String(), "503") {
		t.Errorf("exit %d, %q, %s", code, p.shown.String(), p.errs.String())
	}
}
