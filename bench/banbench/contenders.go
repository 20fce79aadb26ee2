//go:build linux

package banbench

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/fastlimit/fastlimit/bench/httpbench"
	"github.com/fastlimit/fastlimit/bench/proc"
	"github.com/fastlimit/fastlimit/internal/testkit/netns"
)

// address is where the servers listen.
const address = netns.Server4 + ":8080"

// contender is a server, or several programs that make up one.
type contender struct {
	id, name, setup string
	shuts           bool     // out who floods; else it answers
	files           []string // templates of its folder
	commands        []string // templates; the first one listens
	ready           string   // a command that succeeds when all do their work, "" if nothing but the first counts
}

//go:embed templates
var templates embed.FS

const rule = "1/s, burst 2, for each source"

var contenders = []contender{
	{
		id: "fastlimit", name: "fastlimit, bans in the kernel", setup: rule + "; ban {after: 5, within: 10s, for: 10m}, kernel", shuts: true,
		files: []string{"fastlimit.yaml"}, commands: []string{"{{.Fastlimit}} serve -c {{.Dir}}/fastlimit.yaml"},
	},
	{
		id: "fastlimit-memory", name: "fastlimit, bans in memory", setup: rule + "; ban {after: 5, within: 10s, for: 10m}",
		files: []string{"fastlimit.yaml"}, commands: []string{"{{.Fastlimit}} serve -c {{.Dir}}/fastlimit.yaml"},
	},
	{
		id: "fastlimit-answers", name: "fastlimit, no bans", setup: rule,
		files: []string{"fastlimit.yaml"}, commands: []string{"{{.Fastlimit}} serve -c {{.Dir}}/fastlimit.yaml"},
	},
	{
		id: "nginx-fail2ban", name: "nginx limit_req, fail2ban", setup: rule + "; denials in error_log; fail2ban's jail nginx-limit-req, maxretry 5, findtime 10, bantime 600, action nftables", shuts: true,
		files: []string{"nginx.conf", "jail.local", "fail2ban.local"}, commands: []string{"nginx -c {{.Dir}}/nginx.conf -e {{.Dir}}/error.log", "fail2ban-server -f -c {{.Dir}} -s {{.Dir}}/f2b.sock -p {{.Dir}}/f2b.pid --logtarget {{.Dir}}/f2b.log start"},
		ready: "fail2ban-client -s {{.Dir}}/f2b.sock status nginx-limit-req",
	},
	{
		id: "nginx", name: "nginx limit_req", setup: rule + "; denials in error_log",
		files: []string{"nginx.conf"}, commands: []string{"nginx -c {{.Dir}}/nginx.conf -e {{.Dir}}/error.log"},
	},
	{
		id: "haproxy-drop", name: "HAProxy silent-drop", setup: rule + " by a stick table; after 5 denials silent-drop for 10 min", shuts: true,
		files: []string{"haproxy.cfg"}, commands: []string{"haproxy -db -f {{.Dir}}/haproxy.cfg"},
	},
	{
		id: "haproxy", name: "HAProxy deny", setup: rule + " by a stick table",
		files: []string{"haproxy.cfg"}, commands: []string{"haproxy -db -f {{.Dir}}/haproxy.cfg"},
	},
}

// contenders are those that were asked for, or whose programs this machine has.
func (o Options) contenders() (all []contender) {
	for _, c := range contenders {
		if slices.Contains(o.Servers, c.id) || len(o.Servers) == 0 && c.installed() {
			all = append(all, c)
		}
	}
	return all
}

// Versions are those of the programs beside fastlimit.
func (o Options) Versions(ctx context.Context) map[string]string {
	versions := map[string]string{"nginx": httpbench.Nginx().Version(ctx), "haproxy": httpbench.HAProxy().Version(ctx)}
	if path, err := find("fail2ban-server"); err == nil {
		out, _ := exec.CommandContext(ctx, path, "--version").Output() // "" if it cannot say
		versions["fail2ban"] = strings.TrimPrefix(strings.TrimSpace(string(out)), "Fail2Ban v")
	}
	return versions
}

// installed reports whether there are its programs; fastlimit is built.
func (c contender) installed() bool {
	for _, line := range c.commands {
		name, _, _ := strings.Cut(line, " ")
		if _, err := find(name); err != nil && !strings.Contains(name, "{{") {
			return false
		}
	}
	return true
}

// find looks a program up, also where Debian has servers.
func find(name string) (string, error) { return httpbench.Server{}.At(name).Find() }

// site is where a contender runs.
type site struct {
	contender

	world     *netns.World
	receiver  int   // PID of the thread that takes packets
	cores     []int // of the servers
	Dir       string
	Fastlimit string
}

// running is a contender that has been started.
type running struct {
	*site

	children []*proc.Child
}

// stop ends what was started last first, and all that it has left in the packet filter.
func (r *running) stop() {
	for _, c := range slices.Backward(r.children) {
		c.Stop()
	}
	_ = r.world.Command("nft", "flush", "ruleset").Run() // there may be none
}

// start writes the files of a contender and starts its programs.
func (s *site) start(ctx context.Context) (r *running, err error) {
	r = &running{site: s}
	defer func() {
		if err != nil {
			r.stop()
		}
	}()
	if err := s.configure(); err != nil {
		return r, err
	}
	for i, line := range s.commands {
		words := strings.Fields(s.expand(line))
		path, err := find(words[0])
		if err != nil {
			return r, err
		}
		cmd := s.world.Command(path, words[1:]...)
		c := proc.Config{Path: cmd.Path, Args: cmd.Args[1:], Dir: s.Dir, Cores: s.cores}
		if i == 0 {
			c.Addr = address
		}
		child, err := proc.Start(ctx, c)
		if err != nil {
			return r, err
		}
		r.children = append(r.children, child)
	}
	return r, s.await(ctx)
}

// await waits until all programs do their work.
func (s *site) await(ctx context.Context) error {
	if s.ready == "" {
		return nil
	}
	words := strings.Fields(s.expand(s.ready))
	for begin := time.Now(); ; {
		out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput()
		if err == nil {
			return nil
		}
		if time.Since(begin) > 20*time.Second {
			return fmt.Errorf("%s: %w: %s", words[0], err, out)
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// configure writes the files. fail2ban's folder has Debian's filters and actions too.
func (s *site) configure() error {
	for _, name := range s.files {
		text, err := templates.ReadFile("templates/" + name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(s.Dir, name), []byte(s.expand(string(text))), 0o600); err != nil {
			return err
		}
		if name != "jail.local" {
			continue
		}
		for _, name := range []string{"fail2ban.conf", "jail.conf", "filter.d", "action.d", "paths-common.conf", "paths-debian.conf"} {
			if err := os.Symlink("/etc/fail2ban/"+name, filepath.Join(s.Dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Bans and Drops tell the templates what is wanted of the server, ID which one it is.
func (s *site) Bans() bool { return s.id == "fastlimit" || s.id == "fastlimit-memory" }

// Drops reports whether it is to drop who floods.
func (s *site) Drops() bool { return s.shuts }

// expand fills in a template of this program, which is right.
func (s *site) expand(text string) string {
	var b strings.Builder
	if err := template.Must(template.New("").Parse(text)).Execute(&b, s); err != nil {
		panic("BUG: " + err.Error())
	}
	return b.String()
}
