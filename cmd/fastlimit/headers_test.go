package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
)

// headerSets are the values of headers.
var headerSets = []string{"ratelimit", "ratelimit-legacy", "x-ratelimit", "x-ratelimit-limit", "none"}

// serveListeners starts the binary with a listener for each set of settings, and returns
// their addresses.
func serveListeners(t *testing.T, rest string, settings ...string) []string {
	t.Helper()
	var file strings.Builder
	file.WriteString("admin: 127.0.0.1:0\nlisten:\n")
	for _, s := range settings {
		fmt.Fprintf(&file, "  - {address: 127.0.0.1:0, %s}\n", s)
	}
	p := start(t, exec.Command(binary, "serve", "-c", writeFile(t, "fastlimit.yaml", file.String()+rest)))
	return strings.Split(p.listen, ",")
}

// times are values that depend on when a request was judged.
var times = regexp.MustCompile(`(?m)^(Retry-After: |RateLimit-Reset: |X-RateLimit-Retry-After: |RateLimit: .*;t=|X-RateLimit-(?:Reset|Clear): )\d+(\.\d{3})?$`)

// docs/http.md shows what the binary sends: a denial and an admission for each set.
func TestHeadersAreThoseOfTheDocuments(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "http.md"))
	if err != nil {
		t.Fatal(err)
	}
	var settings []string
	for _, s := range headerSets {
		// none tells nothing on admissions, which the document shows all the same.
		always := map[bool]string{true: "", false: ", headers_on: always"}[s == "none"]
		settings = append(settings, "headers: "+s+always)
	}
	addrs := serveListeners(t, "rules: [{name: per-ip, rate: 1/m, burst: 5}]\n", settings...)
	for i, name := range headerSets {
		_, section, _ := strings.Cut(string(page), "\n### "+name+"\n")
		blocks := regexp.MustCompile("(?s)```http\n(.*?)```").FindAllStringSubmatch(section, 2)
		if len(blocks) != 2 {
			t.Fatalf("%s: %d examples", name, len(blocks))
		}
		c := clientFrom(t, fmt.Sprintf("127.0.1.%d", i+1))
		third, denied := "", ""
		for n := 1; denied == "" && n < 20; n++ {
			resp, _ := get(t, c, "http://"+addrs[i]+"/")
			if text := fieldsOf(t, resp); resp.StatusCode != http.StatusOK {
				denied = text
			} else if n == 3 {
				third = text
			}
		}
		for j, got := range []string{denied, third} {
			if want := sorted(blocks[j][1]); got != want {
				t.Errorf("%s:\ngot\n%s\ndocumented\n%s", name, got, want)
			}
		}
	}
}

// fieldsOf is the answer as the page has it: times are replaced, and lines are sorted,
// since a Go client does not know their order. TestListenersHaveTheirOwnHeaders does.
func fieldsOf(t *testing.T, resp *http.Response) string {
	t.Helper()
	lines := []string{"HTTP/1.1 " + resp.Status}
	for name, values := range resp.Header {
		if name == "Date" || name == "Content-Length" {
			continue
		}
		if len(values) != 1 {
			t.Errorf("%s comes %d times", name, len(values))
		}
		lines = append(lines, wire.Replace(name)+": "+values[0])
	}
	return sorted(strings.Join(lines, "\n"))
}

// wire undoes what Go makes of names.
var wire = strings.NewReplacer("Ratelimit", "RateLimit")

func sorted(text string) string {
	lines := strings.Split(strings.TrimSpace(times.ReplaceAllString(text, "${1}N$2")), "\n")
	for i, l := range lines {
		lines[i] = regexp.MustCompile(`N\.\d{3}$`).ReplaceAllString(l, "N.NNN")
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// told is what a client reads from an answer. Fields that it did not find are -1.
type told struct {
	limit, left int64
	wait        time.Duration
}

// readers read the sets as their clients do: httpsfv the structured fields, the others
// as documented, numbers of which those for time are seconds from now.
var readers = map[string]func(t *testing.T, h http.Header) told{
	"ratelimit": func(t *testing.T, h http.Header) told {
		policy, limit := sfItem(t, h, "RateLimit-Policy"), sfItem(t, h, "RateLimit")
		if policy.Value != "per-ip" || limit.Value != "per-ip" {
			t.Errorf("names %v and %v", policy.Value, limit.Value)
		}
		wait := sfInteger(limit, "t")
		return told{sfInteger(policy, "q"), sfInteger(limit, "r"), time.Duration(wait) * time.Second}
	},
	"ratelimit-legacy": func(t *testing.T, h http.Header) told {
		return told{number(t, h, "RateLimit-Limit"), number(t, h, "RateLimit-Remaining"), time.Duration(number(t, h, "RateLimit-Reset")) * time.Second}
	},
	"x-ratelimit": func(t *testing.T, h http.Header) told {
		if h.Get("X-RateLimit-Reset") == "" {
			return told{-1, number(t, h, "X-RateLimit-Remaining"), -time.Second}
		}
		return told{-1, number(t, h, "X-RateLimit-Remaining"), seconds(t, h, "X-RateLimit-Reset")}
	},
	"x-ratelimit-limit": func(t *testing.T, h http.Header) told {
		wait := int64(-1)
		if h.Get("X-RateLimit-Retry-After") != "" {
			wait = number(t, h, "X-RateLimit-Retry-After")
		}
		return told{number(t, h, "X-RateLimit-Limit"), number(t, h, "X-RateLimit-Remaining"), time.Duration(wait) * time.Second}
	},
	"none": func(t *testing.T, h http.Header) told {
		for name := range h {
			if strings.Contains(wire.Replace(name), "RateLimit") {
				t.Errorf("there is %s", name)
			}
		}
		return told{-1, -1, time.Duration(number(t, h, "Retry-After")) * time.Second}
	},
}

func sfItem(t *testing.T, h http.Header, name string) httpsfv.Item {
	t.Helper()
	list, err := httpsfv.UnmarshalList(h.Values(name))
	if err != nil || len(list) != 1 {
		t.Fatalf("%s: %q: %v", name, h.Values(name), err)
	}
	return list[0].(httpsfv.Item)
}

func sfInteger(it httpsfv.Item, name string) int64 {
	if v, ok := it.Params.Get(name); ok {
		return v.(int64)
	}
	return -1
}

func number(t *testing.T, h http.Header, name string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(h.Get(name), 10, 64)
	if err != nil || n < 0 {
		t.Errorf("%s: %q", name, h.Get(name))
	}
	return n
}

func seconds(t *testing.T, h http.Header, name string) time.Duration {
	t.Helper()
	text := h.Get(name)
	d, err := time.ParseDuration(text + "s")
	if err != nil || !regexp.MustCompile(`^\d+\.\d{3}$`).MatchString(text) {
		t.Errorf("%s: %q", name, text)
	}
	return d
}

// A client that reads one of the sets is denied until it has waited as long as it was told,
// and then is not. It is a client of the service itself, or one that a proxy names in
// forward authentication, where denials are 403. What admissions tell is never
// too much, as the client takes all of it.
func TestClientsThatObey(t *testing.T) {
	t.Parallel()
	for _, use := range []struct{ name, settings, rest, header string }{
		{"decision service", "deny_status: 429", "", "X-Nothing"},
		{"forward auth", "deny_status: 403", "trusted_proxies: [127.0.0.1]\noriginal_request: x-forwarded\n", "X-Forwarded-For"},
	} {
		var settings []string
		for _, s := range headerSets {
			settings = append(settings, "headers: "+s+", "+use.settings)
			if s != "none" {
				settings[len(settings)-1] += ", headers_on: always"
			}
		}
		addrs := serveListeners(t, use.rest+"rules: [{name: per-ip, rate: 2/s, burst: 20}]\n", settings...)
		for i, name := range headerSets {
			t.Run(use.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				o := obedient{t: t, url: "http://" + addrs[i] + "/", header: use.header, read: readers[name], shown: name != "none"}
				if o.client = http.DefaultClient; use.header == "X-Nothing" {
					o.client = clientFrom(t, fmt.Sprintf("127.0.2.%d", i+1))
				}
				o.value = fmt.Sprintf("192.0.2.%d", i+1)
				o.run(map[bool]int{true: 403, false: 429}[use.name == "forward auth"])
			})
		}
	}
}

// obedient is a client that goes by the fields of one set.
type obedient struct {
	t                  *testing.T
	client             *http.Client
	url, header, value string
	read               func(*testing.T, http.Header) told
	shown              bool // on admissions
}

func (o *obedient) ask() *http.Response {
	req, err := http.NewRequestWithContext(o.t.Context(), http.MethodGet, o.url, nil)
	if err != nil {
		o.t.Fatal(err)
	}
	req.Header.Set(o.header, o.value)
	req.Header.Set("X-Forwarded-Uri", "/cart")
	resp, err := o.client.Do(req)
	if err != nil {
		o.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp
}

func (o *obedient) run(denied int) {
	sure := int64(0) // to be admitted still, by what it was told last
	for n := 0; ; n++ {
		resp := o.ask()
		if resp.StatusCode == http.StatusOK {
			if n > 2000 {
				o.t.Fatal("never denied")
			}
			if o.shown {
				is := o.read(o.t, resp.Header)
				if is.left < max(sure-1, 0) || is.left > 20 || resp.Header.Get("Retry-After") != "" {
					o.t.Fatalf("request %d: told %+v, after %d", n, is, sure)
				}
				sure = is.left
			}
			continue
		}
		is := o.read(o.t, resp.Header)
		retry := time.Duration(number(o.t, resp.Header, "Retry-After")) * time.Second
		if resp.StatusCode != denied || sure > 0 || is.left > 0 || is.wait <= 0 || is.wait > retry || retry > time.Second || is.limit >= 0 && is.limit != 20 {
			o.t.Fatalf("request %d: status %d, Retry-After %v, told %+v, after %d", n, resp.StatusCode, retry, is, sure)
		}
		time.Sleep(is.wait)
		if resp := o.ask(); resp.StatusCode != http.StatusOK {
			o.t.Errorf("denied after waiting %v: %v", is.wait, resp.Header)
		}
		return
	}
}

// A page of one's own is sent with the time filled in, and validate names what is wrong
// with one.
func TestPageOfOnesOwn(t *testing.T) {
	t.Parallel()
	body := writeFile(t, "busy.html", "<p>in {{retry_after}} seconds\n")
	denial := "denial: {content_type: \"text/html; charset=utf-8\", body_file: \"" + body + "\"}"
	addrs := serveListeners(t, "deny: [127.0.3.2]\nrules: [{name: per-ip, rate: 1/m, burst: 1, strict: true}]\n", "headers: none, "+denial)
	c := clientFrom(t, "127.0.3.1")
	get(t, c, "http://"+addrs[0]+"/")
	resp, text := get(t, c, "http://"+addrs[0]+"/")
	if want := "<p>in " + resp.Header.Get("Retry-After") + " seconds\n"; resp.StatusCode != 429 || text != want || resp.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("%d %v %q, want %q", resp.StatusCode, resp.Header, text, want)
	}
	resp, text = get(t, clientFrom(t, "127.0.3.2"), "http://"+addrs[0]+"/")
	if resp.StatusCode != 403 || resp.Header.Get("Content-Type") != "application/problem+json" || resp.Header.Get("Retry-After") != "" || !strings.Contains(text, "deny list") {
		t.Errorf("listed: %d %v %q", resp.StatusCode, resp.Header, text)
	}
	bad := writeFile(t, "bad.html", "<p>\nin {{retry_afer}} seconds\n")
	file := writeFile(t, "fastlimit.yaml", "listen:\n  - address: 127.0.0.1:8080\n    denial: {content_type: text/html, body_file: "+bad+"}\nrules: [{name: a, rate: 1/s}]\n")
	code, _, errs := command(t, nil, "validate", "-c", file)
	if want := file + `:3:50: listen[0].denial.body_file: "`; code != 1 || !strings.Contains(errs, want) || !strings.Contains(errs, `at 2:4: "{{retry_afer}}" is not a placeholder; write {{retry_after}}`) {
		t.Errorf("%d %s", code, errs)
	}
}
