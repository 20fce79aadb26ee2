package pagetest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/fastlimit/fastlimit/internal/testkit/product"
)

// hang is when a test gives up. Nothing else depends on it.
const hang = 2 * time.Minute

// binary is fastlimit, built once.
var binary string

func TestMain(m *testing.M) { os.Exit(product.Run(m, &binary)) }

var addresses = regexp.MustCompile(`msg="fastlimit is serving" listen=(\S+) admin=(\S+)`)

// node is a running fastlimit.
type node struct{ traffic, admin string }

// serve runs fastlimit with more settings than all of these tests have.
func serve(t *testing.T, more string) node {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fastlimit.yaml")
	config := `listen: 127.0.0.1:0
trusted_proxies: [127.0.0.1]
memory: 16MiB
rules:
  - {name: per-ip, key: ip, rate: 1/m, burst: 5, strict: true}
  - {name: per-tenant, key: [ip, "header:X-Tenant"], rate: 1/m, burst: 1000}
` + more
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "serve", "-c", file)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	lines := bufio.NewScanner(stderr)
	var said []string
	for lines.Scan() {
		said = append(said, lines.Text())
		if at := addresses.FindStringSubmatch(lines.Text()); at != nil {
			go func() {
				for lines.Scan() { // or it would wait for a reader
				}
			}()
			return node{at[1], at[2]}
		}
	}
	t.Fatalf("it does not serve: %s", strings.Join(said, "\n"))
	return node{}
}

// ask sends n requests of a client and returns how many were admitted.
func (n node) ask(t *testing.T, client string, times int) (admitted int) {
	t.Helper()
	for range times {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.traffic+"/login", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", client)
		req.Header.Set("X-Tenant", "a b")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			admitted++
		}
	}
	return admitted
}

// browser is a tab of Chromium that has the page open. Whatever it asks is confirmed.
type browser struct {
	context.Context
	t *testing.T

	mu    sync.Mutex
	wrong []string // what its console says
	asked []string
}

func open(t *testing.T, url string, first ...chromedp.Action) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath("chromium"))
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{Context: ctx, t: t}
	chromedp.ListenTarget(ctx, b.event)
	b.do(append(first, chromedp.Navigate(url), chromedp.WaitReady("#node"))...)
	return b
}

func (b *browser) event(e any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := e.(type) {
	case *runtime.EventExceptionThrown:
		b.wrong = append(b.wrong, e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		b.wrong = append(b.wrong, fmt.Sprint(e.Type, e.Args))
	case *log.EventEntryAdded:
		b.wrong = append(b.wrong, e.Entry.Text)
	case *page.EventJavascriptDialogOpening:
		b.asked = append(b.asked, e.Message)
		go func() { _ = chromedp.Run(b, page.HandleJavaScriptDialog(true)) }() // not here: events would wait for it
	}
}

func (b *browser) do(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b, actions...); err != nil {
		var says string
		_ = chromedp.Run(b, chromedp.Text("#says", &says))
		b.t.Fatalf("%v; the page says %q, the console %q", err, says, b.wrong)
	}
}

// says waits until the page says something.
func (b *browser) says(text string) {
	b.t.Helper()
	b.do(chromedp.Poll(fmt.Sprintf(`document.getElementById("says").textContent.includes(%q)`, text), nil, chromedp.WithPollingTimeout(0)))
}

// shows waits until a part of the page has a text.
func (b *browser) shows(part, text string) {
	b.t.Helper()
	b.do(chromedp.Poll(fmt.Sprintf(`(document.querySelector(%q) || {textContent: ""}).textContent.includes(%q)`, part, text), nil, chromedp.WithPollingTimeout(0)))
}

// table is the region that has a name.
func table(name string) string { return fmt.Sprintf(`[aria-label=%q]`, name) }

// press clicks the button that would do something.
func press(what string) chromedp.Action {
	return chromedp.Click(fmt.Sprintf(`button[data-ask=%q]`, what), chromedp.ByQuery)
}

// ask fills in the field for a client.
func explain(client string) chromedp.Action {
	return chromedp.Tasks{chromedp.SetValue("#key", client, chromedp.ByQuery), chromedp.Click("#ask button", chromedp.ByQuery)}
}

// clean fails if the console has said anything.
func (b *browser) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.wrong) > 0 {
		b.t.Errorf("the console says %q", b.wrong)
	}
}

// picture writes what the page looks like to the folder of go test -artifacts.
func (b *browser) picture(name string) {
	b.t.Helper()
	var png []byte
	b.do(chromedp.FullScreenshot(&png, 100))
	if err := os.WriteFile(filepath.Join(b.t.ArtifactDir(), name), png, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// An attack, from the page alone: the flooder is found, explained and banned, a customer is
// freed, a rule is loosened and made as it was, and all of that is among the changes.
func TestFlow(t *testing.T) {
	n := serve(t, "admin: 127.0.0.1:0\n")
	n.ask(t, "198.51.100.7", 60)
	if n.ask(t, "203.0.113.9", 20) != 5 {
		t.Fatal("the customer is not over the limit")
	}
	b := open(t, "http://"+n.admin+"/")
	b.shows(table("By net"), "198.51.100.7/32")
	b.shows(table("By path"), "/login")
	b.do(chromedp.Click(table("Top clients")+` a[href="/?key=198.51.100.7#explain"]`, chromedp.ByQuery))
	b.shows(".answer", "198.51.100.7")
	b.do(press("Ban 198.51.100.7 for 1 hour"))
	b.says("Ban 198.51.100.7 for 1 hour.")
	b.shows(table("Bans"), "198.51.100.7")
	b.shows(".answer", "banned by an operator")

	b.do(explain("203.0.113.9"))
	b.shows(".answer", "203.0.113.9 is over the limit of rule per-ip")
	b.do(press("Empty the bucket of 203.0.113.9 in per-ip"))
	b.says("Empty the bucket of 203.0.113.9 in per-ip.")
	b.shows(".answer", "its next request is admitted")
	if got := n.ask(t, "203.0.113.9", 6); got != 5 {
		t.Errorf("after the reset %d of 6 requests are admitted, want 5", got)
	}

	b.do(chromedp.SetValue("#which", "per-ip", chromedp.ByQuery), chromedp.SetValue("#rate", "100/s", chromedp.ByQuery),
		chromedp.SetValue("#burst", "200", chromedp.ByQuery), chromedp.SetValue("#for", "10m", chromedp.ByQuery), chromedp.Click("#rule button", chromedp.ByQuery))
	b.says("Change per-ip for 10m.")
	b.shows(table("Rules"), "100/s, burst 200")
	if got := n.ask(t, "203.0.113.9", 50); got != 50 {
		t.Errorf("after the change %d of 50 requests are admitted", got)
	}
	if n.ask(t, "198.51.100.7", 3) != 0 {
		t.Error("the flooder is admitted")
	}
	b.picture("flow.png")
	b.do(press("Undo the change of per-ip"))
	b.says("Undo the change of per-ip.")
	b.shows(table("Rules"), "1/m, burst 5")
	b.do(press("Unban 198.51.100.7"))
	b.says("Unban 198.51.100.7.")
	for _, change := range []string{"ban set", "ban ended", "bucket reset", "rule", "198.51.100.7", "203.0.113.9", "100/s", "127.0.0.1"} {
		b.shows(table("Changes"), change)
	}
	if len(b.asked) != 5 {
		t.Errorf("it has asked %q", b.asked)
	}
	b.clean()
}

// A key of several parts can be explained, and what it has of a header is a hash.
func TestKeyOfSeveralParts(t *testing.T) {
	n := serve(t, "admin: 127.0.0.1:0\n")
	n.ask(t, "198.51.100.7", 5)
	b := open(t, "http://"+n.admin+"/")
	b.do(chromedp.Click(table("Top clients")+` a[href*="%23"]`, chromedp.ByQuery))
	b.shows(".answer", "198.51.100.7 #")
	b.shows(table("By rule"), "per-tenant")
	b.clean()
}

// If changes need a token it is the one in the field: without it they are refused, which the page says, and
// with it they are logged under its name.
func TestTokens(t *testing.T) {
	const token = "0123456789abcdef0123456789abcdef"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	n := serve(t, fmt.Sprintf("admin: {address: \"0.0.0.0:0\", tokens: [{name: ann, file: %q, scope: act}]}\n", file))
	_, port, _ := net.SplitHostPort(n.admin)
	b := open(t, "http://127.0.0.1:"+port+"/?key=198.51.100.7")
	b.do(press("Ban 198.51.100.7 for 1 hour"))
	b.says("Ban 198.51.100.7 for 1 hour: not done. ")
	b.do(chromedp.SetValue("#token", "not "+token, chromedp.ByQuery), press("Ban 198.51.100.7 for 1 hour"))
	b.says("Ban 198.51.100.7 for 1 hour: not done. ")
	b.do(chromedp.SetValue("#token", token, chromedp.ByQuery), press("Ban 198.51.100.7 for 1 hour"))
	b.says("Ban 198.51.100.7 for 1 hour.")
	b.shows(table("Changes"), "ann")
}

// Without scripts all tables are there, and no button that would do nothing.
func TestWithoutScript(t *testing.T) {
	n := serve(t, "admin: 127.0.0.1:0\n")
	n.ask(t, "198.51.100.7", 9)
	b := open(t, "http://"+n.admin+"/?key=198.51.100.7", emulation.SetScriptExecutionDisabled(true))
	var text string
	b.do(chromedp.Text("main", &text, chromedp.ByQuery))
	for _, want := range []string{"198.51.100.7 is over the limit", "198.51.100.7/32", "/login", "Nobody is banned."} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not on the page", want)
		}
	}
	if strings.Contains(text, "Ban for 1 hour") || !strings.Contains(text, "Explain") {
		t.Errorf("buttons: %s", text)
	}
	b.clean()
}
