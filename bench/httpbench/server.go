// Package httpbench measures rate limiters over HTTP: fastlimit beside nginx
// limit_req, HAProxy stick tables and any other server, each with the same
// rule, on the same core and under the same load.
//
// A server answers 200 to what it admits and 429 to the rest, and does nothing
// else. It has one core for itself, the load generator another. Throughput and
// CPU time come from a closed loop, in short rounds that take turns between
// the servers, since a machine's speed drifts; the median counts. Latencies and
// shed shares come from an open loop at a rate that all can answer.
package httpbench

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
	"time"

	"github.com/fastlimit/fastlimit/bench/load"
	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/fastlimit/fastlimit/bench/proc"
)

// Server is a limiter that can be started. Its zero value is not usable: take
// [Fastlimit], [Nginx], [TunedNginx], [HAProxy] or [Command].
type Server struct {
	Name string
	// Setup tells how it is configured.
	Setup string

	path    string   // of the program; looked up in PATH and in sbin
	args    []string // templates of settings
	config  string   // name of a template, written to Dir/config; "" is none
	version []string // arguments that print it

	// forwarded are the arguments by which it believes the headers of a proxy; nil
	// means that it takes no notice of them.
	forwarded []string
	// probe is what an operator asks; "" if there is no address for operators.
	probe string
	// decides is false for a server that gives one answer to all.
	decides bool
	// tuned is what settings.Tuned becomes.
	tuned bool
}

// settings fill the templates of a server.
type settings struct {
	Addr, Dir, Setup string
	Admin            string // of an operator; only fastlimit has one
	Rate             string // as fastlimit writes it
	Burst            uint64
	PerSecond        int64  // the rate, in whole requests
	Excess           uint64 // nginx's burst: requests beyond the one that the rate admits
	WindowMS         int64  // in which a client that uses its limit sends Burst requests
	MaxConns         int    // at a time; those of the last run may not be gone yet
	Upstream         string // for [BareServer]: where to learn the answer
	Status           int    // that this answer has
	App              string // of a proxy: address of what it stands in front of
	Tuned            bool   // for many new connections: nginx's "deferred" and "multi_accept"
}

// site is where a server is started, and for what.
type site struct {
	rule      oracle.Rule
	dir       string // of its own
	cores     []int
	maxConns  int
	forwarded bool
	upstream  string
	status    int
	app       string
}

//go:embed nginx.conf haproxy.cfg fastlimit.yaml nginx-proxy.conf haproxy-proxy.cfg
var templates embed.FS

// Fastlimit is the fastlimit binary at path.
func Fastlimit(path string) Server {
	return Server{
		Name:    "fastlimit",
		Setup:   "fastlimit serve, defaults",
		path:    path,
		args:    []string{"serve", "--listen", "{{.Addr}}", "--admin", "{{.Admin}}", "--rate", "{{.Rate}}", "--burst", "{{.Burst}}"},
		version: []string{"version"},

		config:    "fastlimit.yaml", // for forwarded only
		forwarded: []string{"serve", "-c", "{{.Dir}}/config"},
		decides:   true,
		probe:     "/readyz",
	}
}

// BareServer is [Bare]: fasthttp with a handler that gives the answer of the first
// server, and without timeouts unless they are asked for.
func BareServer(timeouts bool) Server {
	self, _ := os.Executable() // where that fails it cannot be found, which says so
	return Server{
		Name:  "bare fasthttp",
		Setup: fmt.Sprintf("the same answer by a handler that decides nothing; timeouts: %v", timeouts),
		path:  self,
		args:  []string{BareCommand, "{{.Upstream}}", "{{.Status}}", "{{.Addr}}", fmt.Sprintf("--timeouts=%v", timeouts)},
	}
}

// Nginx is nginx with limit_req, as its documentation has it: a zone keyed by
// $binary_remote_addr, burst with nodelay.
func Nginx() Server {
	return Server{
		Name:    "nginx limit_req",
		Setup:   "1 worker; zone of 64 MiB by $binary_remote_addr; burst is the rule's less 1, nodelay; no logs",
		path:    "nginx",
		args:    []string{"-c", "{{.Dir}}/config", "-e", "stderr"},
		config:  "nginx.conf",
		version: []string{"-v"},
		decides: true,
	}
}

// TunedNginx is [Nginx] as its documentation tunes it for many new connections: a
// worker hears of a connection when its request has come, and accepts all that wait.
func TunedNginx() Server {
	s := Nginx()
	s.Name, s.Setup, s.tuned = "nginx tuned", "limit_req, deferred, multi_accept; else as nginx limit_req", true
	return s
}

// HAProxy is HAProxy with a stick table, as its documentation has it: a
// sliding window of the request rate by source address.
func HAProxy() Server {
	return Server{
		Name:    "HAProxy stick table",
		Setup:   "nbthread 1; 2^20 entries by source; http_req_rate over burst/rate, denied above burst; no logs",
		path:    "haproxy",
		args:    []string{"-db", "-f", "{{.Dir}}/config"},
		config:  "haproxy.cfg",
		version: []string{"-v"},
		decides: true,
	}
}

// Command is any other limiter, given as name=command. In the command,
// {{.Addr}} stands for the address to listen on, {{.Rate}}, {{.PerSecond}} and
// {{.Burst}} for the rule; its words are split at blanks.
func Command(spec string) (Server, error) {
	name, command, ok := strings.Cut(spec, "=")
	words := strings.Fields(command)
	if !ok || name == "" || len(words) == 0 {
		return Server{}, fmt.Errorf("bench: server %q: write name=command, with {{.Addr}} where the address to listen on goes", spec)
	}
	if !strings.Contains(command, "{{.Addr}}") {
		return Server{}, fmt.Errorf("bench: server %q: its command lacks {{.Addr}}, the address to listen on", name)
	}
	s := Server{Name: name, Setup: command, path: words[0], args: words[1:], decides: true}
	for _, a := range s.args {
		if _, err := expand(a, settings{}); err != nil {
			return Server{}, fmt.Errorf("bench: server %q: %w", name, err)
		}
	}
	return s, nil
}

// At is the server with its program at path, a file or a name to look up.
func (s Server) At(path string) Server {
	s.path = path
	return s
}

// Find returns the path of the server's program, also if it is in an sbin folder.
func (s Server) Find() (string, error) {
	path, err := exec.LookPath(s.path)
	if err == nil {
		return path, nil
	}
	// Debian installs servers in sbin, which is not in the PATH of users.
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin"} {
		if strings.Contains(s.path, "/") {
			break // it was not looked up
		}
		if path, err := exec.LookPath(filepath.Join(dir, s.path)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("bench: %s: no program %q on this machine: install it, say where it is, or leave it out with --server", s.Name, s.path)
}

var versionNumber = regexp.MustCompile(`\d+\.\d+[^\s,]*|\(devel\)`)

// Version is what the program says it is, "" where that is not known.
func (s Server) Version(ctx context.Context) string {
	path, err := s.Find()
	if err != nil || s.version == nil {
		return ""
	}
	out, err := exec.CommandContext(ctx, path, s.version...).CombinedOutput()
	if err != nil {
		return ""
	}
	return versionNumber.FindString(string(out))
}

// start runs the server until its child is stopped.
func (s Server) start(ctx context.Context, at site) (*running, error) {
	path, err := s.Find()
	if err != nil {
		return nil, err
	}
	var addrs [2]string // for traffic and for operators
	for i := range addrs {
		if addrs[i], err = proc.FreeAddr(); err != nil {
			return nil, err
		}
	}
	rule := at.rule
	perSecond := rule.Rate.PerSecond()
	set := settings{
		Addr: addrs[0], Admin: addrs[1], Dir: at.dir, Setup: s.Name + ": " + s.Setup,
		Rate: rule.Rate.String(), Burst: rule.Burst, Excess: rule.Burst - 1,
		PerSecond: int64(perSecond), WindowMS: rule.Window().Milliseconds(),
		MaxConns: max(4096, 2*at.maxConns+100), Upstream: at.upstream, Status: at.status, App: at.app, Tuned: s.tuned,
	}
	if float64(set.PerSecond) != perSecond || rule.Burst < 1 || set.WindowMS < 1 {
		return nil, fmt.Errorf("bench: rule %v: not all servers have it: want whole requests per second, and a burst of 1 ms or more", rule)
	}
	from := s.args
	if at.forwarded && s.forwarded != nil {
		from = s.forwarded
	}
	args := make([]string, len(from))
	for i, a := range from {
		if args[i], err = expand(a, set); err != nil {
			return nil, fmt.Errorf("bench: %s: %w", s.Name, err)
		}
	}
	if s.config != "" {
		if err := s.configure(set); err != nil {
			return nil, err
		}
	}
	child, err := proc.Start(ctx, proc.Config{Path: path, Args: args, Dir: at.dir, Cores: at.cores, Addr: addrs[0]})
	if err != nil {
		return nil, err
	}
	if s.probe != "" {
		ready, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if err := child.Await(ready, addrs[1]); err != nil {
			child.Stop()
			return nil, fmt.Errorf("bench: %s: %w", s.Name, err)
		}
	}
	target, err := load.NewTarget("http://"+addrs[0]+"/", 0)
	return &running{server: s, child: child, target: target, admin: addrs[1]}, err
}

// configure writes the server's configuration, if it has one.
func (s Server) configure(set settings) error {
	text, err := templates.ReadFile(s.config)
	if err != nil {
		return err
	}
	config, err := expand(string(text), set)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(set.Dir, "config"), []byte(config), 0o600)
}

// expand fills in a template.
func expand(text string, set settings) (string, error) {
	t, err := template.New("").Parse(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, set)
	return b.String(), err
}
