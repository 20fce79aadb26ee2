package main

import (
	"net/http"
	"strings"
	"testing"
)

// A proxy that names no client gets what on_unnamed says, is warned of and
// counted; denials and bad requests reach the log.
func TestServeOnUnnamed(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "c.yaml", `
trusted_proxies: [127.0.0.0/8]
on_unnamed: deny
rules: [{name: one, rate: 1/h, burst: 1, strict: true}]
`)
	p := serve(t, "-c", file)
	if resp, body := get(t, http.DefaultClient, "http://"+p.listen+"/"); resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "did not name the client") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if _, body := get(t, http.DefaultClient, "http://"+p.admin+"/metrics"); !strings.Contains(body, "\nfastlimit_unnamed_requests_total 1\n") {
		t.Error("not counted")
	}
	p.waitLog(`msg="a trusted proxy does not name the client`)
	p.waitLog(`msg="bad request" peer=127.0.0.1 reason=unnamed status=400 count=1`)
	for range 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.listen+"/login", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", "192.0.2.7")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	line := p.waitLog("msg=denied client=192.0.2.7 rule=one key=192.0.2.7 stage=")
	if !strings.Contains(line, " count=1 method=GET host="+p.listen[:9]) || !strings.HasSuffix(line, " path=/login") {
		t.Errorf("got %s", line)
	}
}
