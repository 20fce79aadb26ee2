package main

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// Somebody is denied: explain says why, of a rule, of all rules and of a request, and reset
// frees the client.
func TestExplainAndReset(t *testing.T) {
	t.Parallel()
	p := serve(t, "-c", writeFile(t, "c.yaml", `
listen: 127.0.0.1:0
admin: 127.0.0.1:0
top_talkers: 64
decide_api: true
deny: [127.0.9.0/24]
rules:
  - {name: per-ip, key: ip, rate: 10/h, burst: 4, strict: true}
  - {name: login, key: [ip, path], match: {path: /login, method: POST}, rate: 3/h, strict: true}
  - {name: api, key: "header:X-Api-Key", rate: 10/h, burst: 2, mode: shadow}
`))
	for range 9 {
		get(t, clientFrom(t, "127.0.3.7"), "http://"+p.listen+"/")
	}
	soon := regexp.MustCompile(`\b5m\d+(\.\d+)?s\b|\b6m0s\b|\b3[45]\d\.\d+`)
	level := regexp.MustCompile(`\b(4|3\.\d+)( +-)`)
	run := func(want string, args ...string) {
		t.Helper()
		code, stdout, stderr := command(t, nil, append(args, "--admin", p.admin)...)
		got := soon.ReplaceAllString(fmt.Sprint(code, " ", stdout, strings.ReplaceAll(stderr, p.admin, "ADMIN")), "SOON")
		if got = level.ReplaceAllString(got, "FULL$2"); !regexp.MustCompile(`^(?:` + want + `)$`).MatchString(got) {
			t.Errorf("%q: got\n%s\nwant\n%s", args, got, want)
		}
	}
	const over = `0 127\.0\.3\.7 is over the limit of rule per-ip \(10/h, burst 4\): its next request is denied, and one fits in SOON\.\n\n`
	const head = `RULE    MODE     KEY        LIMIT          NEXT REQUEST +STAGE  LEVEL  SUSPICION  NODES\n`
	const line = `per-ip  enforce  127\.0\.3\.7  10/h, burst 4  denied, again in SOON +table  FULL +- +\S+\n`
	run(over+head+line, "explain", "127.0.3.7")
	run(over+head+line, "explain", "per-ip", "127.0.3.7")
	run(over+`(?s).*login   enforce  127\.0\.3\.7 /login  3/h, burst 3 .*admitted.*`, "explain", "127.0.3.7", "--url", "http://example.com/login?next=/", "--method", "POST")
	run(`0 #[0-9a-f]{16} has not been seen by rule api .* lately: .*(?s).*`, "explain", "api", "secret")
	run(`0 127\.0\.9\.1 is on the deny list: all its requests are refused\.\n(?s).*`, "explain", "127.0.9.1")
	run(`0 \{"key":"127\.0\.3\.7","allowed":false,"list":"","rules":\[\{"rule":"per-ip","mode":"enforce","key":"127\.0\.3\.7","key_parts":\["127\.0\.3\.7"\],.*"stage":"table","level":[\d.]+,"remaining":0,"retry_after":SOON,"waits":0,"suspicion":null,"store_decides":false,"banned_for":0,"banned_by":"","override":null,"live_for":0,"nodes":\["[^"]+"\],.*\}\n`, "explain", "127.0.3.7", "-o", "json")
	run(`0 per-ip 127\.0\.3\.7: its bucket is empty\n`, "reset", "per-ip", "127.0.3.7")
	if resp, _ := get(t, clientFrom(t, "127.0.3.7"), "http://"+p.listen+"/"); resp.StatusCode != http.StatusOK {
		t.Errorf("after a reset: %d", resp.StatusCode)
	}
	p.waitLog(`msg="bucket reset" by=127.0.0.1 rule=per-ip key=127.0.3.7`)

	run(`1 fastlimit explain: ADMIN: key: rule "per-ip": key "x" is no client's address; write for example 192\.0\.2\.7 or 2001:db8::1\n`, "explain", "per-ip", "x")
	run(`1 fastlimit explain: ADMIN: key: of a request it is the address that sends it, for example 192\.0\.2\.7\n`, "explain", "x", "--path", "/login")
	run(`2 fastlimit: --header x: want NAME:VALUE, for example X-Api-Key:abc\n`, "explain", "127.0.3.7", "--header", "x")
	run(`2 fastlimit: --url x: want one such as https://example\.com/login\n`, "explain", "127.0.3.7", "--url", "x")
	run(`1 fastlimit reset: ADMIN: no rule "x"; this node has per-ip, login, api\n`, "reset", "x", "127.0.3.7")
	for path, want := range map[string]int{
		"": 400, "?key=127.0.3.7&rule=per-ip&path=/": 400, "?key=127.0.3.7&header=x": 400, "?key=127.0.3.7&path=x": 400,
		"?key=a&key=b&path=/": 400, "?rule=x&key=127.0.3.7": 404, "?rule=per-ip&key=x": 422, "?key=127.0.3.7": 200,
		"?key=127.0.3.7&path=/login&method=POST&header=Cookie:a=b": 200,
	} {
		if resp, body := get(t, http.DefaultClient, "http://"+p.admin+"/v1/explain"+path); resp.StatusCode != want {
			t.Errorf("%s: %d %s, want %d", path, resp.StatusCode, body, want)
		}
	}
}

// A question about a client that is refused whatever the rules is answered like that, with peek
// and without.
func TestBatchKnowsListsAndBans(t *testing.T) {
	t.Parallel()
	p := serve(t, "-c", writeFile(t, "c.yaml", "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nallow: [192.0.2.7]\ndeny: [192.0.2.8]\nrules: [{name: r, key: ip, rate: 1/h, strict: true}, {name: s, key: [path, ip], rate: 1/h}]\n"))
	if code, _, stderr := command(t, nil, "ban", "198.51.100.9", "--admin", p.admin); code != 0 {
		t.Fatal(stderr)
	}
	for _, c := range []struct{ rule, key, want string }{
		{"r", `"192.0.2.7"`, `"allowed":true,"remaining":null,"retry_after":0,"stage":"list"`},
		{"r", `"192.0.2.8"`, `"allowed":false,"remaining":null,"retry_after":0,"stage":"list"`},
		{"r", `"198.51.100.9"`, `"allowed":false,"remaining":0,"retry_after":35\d\d\.\d+,"stage":"ban"`},
		{"s", `"/","192.0.2.8"`, `"allowed":false,"remaining":null,"retry_after":0,"stage":"list"`},
		{"r", `"192.0.2.10"`, `"allowed":true,.*`},
	} {
		for _, peek := range []bool{true, false, false} {
			if c.rule == "r" && c.key == `"192.0.2.10"` && !peek {
				continue // its bucket is full after one
			}
			body := fmt.Sprintf(`{"requests":[{"rule":%q,"key":[%s],"peek":%t}]}`, c.rule, c.key, peek)
			resp, err := http.Post("http://"+p.admin+"/v1/decide", "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			got := string(b)
			if !regexp.MustCompile(`^\{"results":\[\{` + c.want + `\}\]\}\n$`).MatchString(got) {
				t.Errorf("%s: %s, want %s", body, got, c.want)
			}
		}
	}
}
