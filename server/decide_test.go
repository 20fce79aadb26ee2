package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/decide"
)

// decideSettings has an enforced rule, a shadow one and a composite one.
func decideSettings() policy.Settings {
	set := perSecond()
	shadow := set.Rules[0]
	shadow.Limit.Name, shadow.Limit.Mode, shadow.Limit.Burst = "shadow", fastlimit.Shadow, 1
	two := set.Rules[0]
	two.Limit.Name = "two"
	two.Key = []policy.KeyPart{{Kind: policy.KeyIP}, {Kind: policy.KeyHeader, Name: "X-Api-Key"}}
	lax := set.Rules[0]
	lax.Limit.Name, lax.Limit.Strict, lax.Limit.Burst = "lax", false, 100
	set.Rules = append(set.Rules, shadow, two, lax)
	return set
}

func postBatch(t *testing.T, addr, body string) (int, http.Header, string) {
	t.Helper()
	resp := send(t, http.MethodPost, "http://"+addr+"/v1/decide", body, "Content-Type", "application/json")
	return resp.StatusCode, resp.Header, string(readAll(t, resp))
}

func TestDecideBatch(t *testing.T) {
	t.Parallel()
	s := start(t, decideSettings(), func(c *Config) { c.DecideAPI = true })
	for _, addr := range []string{s.addr, s.admin} {
		lim, _ := s.config().Limiter.Rule("per-ip")
		key, _ := s.config().Engine.KeyFromText(lim, []string{"192.0.2.7"})
		lim.Reset(key)
		status, _, body := postBatch(t, addr, `{"requests":[
			{"rule":"per-ip","key":["192.0.2.7"],"cost":2},
			{"rule":"per-ip","key":["192.0.2.7"],"peek":true},
			{"rule":"per-ip","key":["192.0.2.7"]},
			{"rule":"per-ip","key":["192.0.2.7"]},
			{"rule":"per-ip","key":["192.0.2.7"],"cost":3},
			{"rule":"two","key":["192.0.2.7","k"],"cost":1,"peek":false}]}`)
		if status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		var reply struct{ Results []map[string]any }
		if err := json.Unmarshal([]byte(body), &reply); err != nil || len(reply.Results) != 6 {
			t.Fatalf("%v %s", err, body)
		}
		allowed := []bool{true, true, true, false, false, true}
		for i, r := range reply.Results {
			if r["allowed"] != allowed[i] {
				t.Errorf("%d: %v", i, r)
			}
			if retry := r["retry_after"].(float64); (retry > 0) == allowed[i] {
				t.Errorf("%d: retry_after %v", i, retry)
			}
		}
		if r := reply.Results[0]; r["remaining"] != 1.0 || r["stage"] != "exact" {
			t.Errorf("the first: %v", r)
		}
	}
}

func TestDecideDoesNotKnowWhatOnlyTheSketchKnows(t *testing.T) {
	t.Parallel()
	s := start(t, decideSettings())
	_, _, body := postBatch(t, s.admin, `{"requests":[{"rule":"lax","key":["192.0.2.1"]},{"rule":"lax","key":["192.0.2.1"]}]}`)
	want := `{"results":[{"allowed":true,"remaining":null,"retry_after":0,"stage":"filter"},{"allowed":true,"remaining":null,"retry_after":0,"stage":"sketch"}]}`
	if strings.TrimSpace(body) != want {
		t.Errorf("got %s\nwant %s", body, want)
	}
}

func TestDecideShadowAdmits(t *testing.T) {
	t.Parallel()
	s := start(t, decideSettings())
	_, _, body := postBatch(t, s.admin, `{"requests":[{"rule":"shadow","key":["192.0.2.1"]},{"rule":"shadow","key":["192.0.2.1"]}]}`)
	if strings.Count(body, `"allowed":true`) != 2 {
		t.Errorf("got %s", body)
	}
}

// Whatever text is accepted, different keys stay different, and none of the
// escapes of JSON is refused for its looks.
func TestDecideKeysStayApart(t *testing.T) {
	t.Parallel()
	set := decideSettings()
	set.Rules[2].Limit.Burst = 1
	s := start(t, set)
	for _, key := range []string{`a`, `\\`, `\\ud800`, `\\\\udc00`, `\ud83d\ude00`, `\u0041`, `\ufffd`, `\"`, `é`, `\u0000`, `\\u`, `\/`, `key`, `rule`, `requests`} {
		body := `{"requests":[{"rule":"two","key":["192.0.2.7","` + key + `"]}]}`
		if status, _, reply := postBatch(t, s.admin, body); status != 200 || !strings.Contains(reply, `"allowed":true`) {
			t.Errorf("%s: %d %s", key, status, reply)
		}
		if _, _, reply := postBatch(t, s.admin, body); !strings.Contains(reply, `"allowed":false`) {
			t.Errorf("%s, again: %s", key, reply)
		}
	}
}

func TestDecideCountsWithLiveRequests(t *testing.T) {
	t.Parallel()
	s := start(t, perIP())
	postBatch(t, s.admin, `{"requests":[{"rule":"per-ip","key":["127.0.0.1"],"cost":3}]}`)
	if resp := get(t, "http://"+s.addr+"/"); resp.StatusCode != 429 {
		t.Errorf("the live request has another bucket: %d", resp.StatusCode)
	}
}

// An error means that nothing was charged, and names the item.
func TestDecideRefusesBadBatches(t *testing.T) {
	t.Parallel()
	s := start(t, decideSettings(), func(c *Config) { c.DecideAPI = true })
	const good = `{"rule":"per-ip","key":["192.0.2.7"],"cost":3}`
	many := strings.Repeat(good+",", 1000) + good
	for _, c := range []struct{ name, body, want string }{
		{"empty", ``, "not a batch"},
		{"not JSON", `nonsense`, "not a batch"},
		{"cut off", `{"requests":[` + good, "not a batch"},
		{"an array", `[` + good + `]`, "not a batch"},
		{"an unknown field", `{"requests":[{"rule":"per-ip","key":["192.0.2.7"],"costs":1}]}`, "costs"},
		{"an unknown field outside", `{"requests":[` + good + `],"x":1}`, `\"x\"`},
		{"two documents", `{"requests":[` + good + `]}{}`, "more after the batch"},
		{"none", `{"requests":[]}`, "0 items"},
		{"no field", `{}`, "0 items"},
		{"too many", `{"requests":[` + many + `]}`, "1001 items"},
		{"an unknown rule", `{"requests":[` + good + `,{"rule":"nope","key":["192.0.2.7"]}]}`, "requests[1]: rule"},
		{"a bad address", `{"requests":[` + good + `,{"rule":"per-ip","key":["nope"]}]}`, "requests[1]: key"},
		{"no key", `{"requests":[` + good + `,{"rule":"per-ip"}]}`, "requests[1]: key"},
		{"a part too few", `{"requests":[{"rule":"two","key":["192.0.2.7"]}]}`, "requests[0]: key"},
		{"a key that is no list", `{"requests":[{"rule":"per-ip","key":"192.0.2.7"}]}`, "not a batch"},
		{"cost 0", `{"requests":[{"rule":"per-ip","key":["192.0.2.7"],"cost":0}]}`, "cost 0"},
		{"a negative cost", `{"requests":[{"rule":"per-ip","key":["192.0.2.7"],"cost":-1}]}`, "cost -1: want a whole number"},
		{"a cost above the burst", `{"requests":[` + good + `,{"rule":"per-ip","key":["192.0.2.7"],"cost":4}]}`, "requests[1]: cost 4 is above the burst of 3"},
		{"a peek above the burst", `{"requests":[{"rule":"per-ip","key":["192.0.2.7"],"cost":18446744073709551615,"peek":true}]}`, "cost 18446744073709551615 is above the burst of 3"},
		{"not UTF-8", "{\"requests\":[{\"rule\":\"two\",\"key\":[\"192.0.2.7\",\"\xff\"]}]}", "not UTF-8"},
		{"UTF-8 cut off", "{\"requests\":[{\"rule\":\"two\",\"key\":[\"192.0.2.7\",\"\xc3\"]}]}", "not UTF-8"},
		{"half a surrogate pair", `{"requests":[{"rule":"two","key":["192.0.2.7","\ud800"]}]}`, "surrogate"},
		{"the other half", `{"requests":[{"rule":"two","key":["192.0.2.7","\\\udc00"]}]}`, "surrogate"},
		{"halves in the wrong order", `{"requests":[{"rule":"two","key":["192.0.2.7","\udc00\ud800"]}]}`, "surrogate"},
		{"half a pair before another escape", `{"requests":[{"rule":"two","key":["192.0.2.7","\ud800\u0041"]}]}`, "surrogate"},
		{"a name twice", `{"requests":[{"rule":"per-ip","key":["192.0.2.7"],"key":["192.0.2.8"]}]}`, "twice"},
		{"a name twice, outside", `{"requests":[` + good + `],"requests":[` + good + `]}`, "twice"},
		{"a name in another case", `{"requests":[{"rule":"per-ip","key":["192.0.2.7"],"Cost":1}]}`, "lower case"},
		{"half a cost", `{"requests":[{"rule":"per-ip","key":["192.0.2.7"],"cost":0.5}]}`, "cost 0.5: want a whole number"},
	} {
		for _, addr := range []string{s.addr, s.admin} {
			status, h, body := postBatch(t, addr, c.body)
			if status != 400 || h.Get("Content-Type") != "application/problem+json" || !strings.Contains(body, c.want) {
				t.Errorf("%s: got %d %.300s, want 400 with %q", c.name, status, body, c.want)
			}
		}
	}
	rule, _ := s.config().Limiter.Rule("per-ip")
	key, _ := s.config().Engine.KeyFromText(rule, []string{"192.0.2.7"})
	if d := rule.Peek(key, 3); !d.Allowed {
		t.Error("a refused batch was charged")
	}
}

func TestDecideBounds(t *testing.T) {
	t.Parallel()
	s := start(t, decideSettings(), func(c *Config) { c.DecideAPI, c.Connections.HeaderTimeout = true, time.Minute })
	pad := strings.Repeat(" ", 500<<10) // above Connections.BodyBytes
	items := strings.Repeat(`{"rule":"shadow","key":["192.0.2.7"]},`, 1000)
	for _, addr := range []string{s.addr, s.admin} {
		if status, _, body := postBatch(t, addr, `{"requests":[`+items[:len(items)-1]+`]}`+pad); status != 200 {
			t.Errorf("%d: %.200s", status, body)
		}
	}
	if status := tooLong(t, s.addr, 1); status != 413 {
		t.Errorf("traffic got %d, want 413", status)
	}
	if status := tooLong(t, s.admin, decide.MaxBatchBytes+1); status != 413 {
		t.Errorf("admin got %d, want 413", status)
	}
	if resp := get(t, "http://"+s.addr+"/v1/decide"); resp.StatusCode != 405 || resp.Header.Get("Allow") != "POST" {
		t.Errorf("GET got %d", resp.StatusCode)
	}
	if resp := send(t, "POST", "http://"+s.addr+"/v1/decide", "{}", "Content-Type", "application/json", "Origin", "http://evil.example"); resp.StatusCode != 403 {
		t.Errorf("another origin got %d", resp.StatusCode)
	}
}

// tooLong announces a body above the limit. Traffic listeners go by that once
// the first byte is there, net/http reads on to see.
func tooLong(t *testing.T, addr string, bytes int) int {
	t.Helper()
	all := raw(t, addr, fmt.Sprintf("POST /v1/decide HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
		addr, decide.MaxBatchBytes+1, strings.Repeat(" ", bytes)))
	if len(all) == 0 {
		return 0
	}
	return all[0].StatusCode
}

func FuzzDecide(f *testing.F) {
	for _, s := range []string{
		`{"requests":[{"rule":"per-ip","key":["192.0.2.7"],"cost":1,"peek":false}]}`,
		`{"requests":[{"rule":"two","key":["2001:db8::/64","\u0000"]}]}`,
		`{"requests":[{"rule":"two","key":["192.0.2.7","\ud83d\ude00\\"],"cost":3}]}`,
		`{"requests":[]}`, `{"requests":[{}]}`, `[`, `{"requests":null}`, `{"requests":[{"rule":"lax","key":["::1"],"cost":18446744073709551615}]}`,
	} {
		f.Add([]byte(s))
	}
	c := newConfig(f, decideSettings())
	srv, err := New(c)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		reply, err := srv.decide.Batch(t.Context(), body)
		if err != nil {
			return
		}
		var r struct {
			Results []struct {
				Allowed    bool    `json:"allowed"`
				RetryAfter float64 `json:"retry_after"`
			} `json:"results"`
		}
		if err := json.Unmarshal(reply, &r); err != nil || len(r.Results) == 0 {
			t.Fatalf("%v: %s", err, reply)
		}
		for _, x := range r.Results {
			if x.Allowed != (x.RetryAfter == 0) || x.RetryAfter > 3600 {
				t.Fatalf("%+v", x)
			}
		}
	})
}

// A batch that is refused on a traffic listener is counted and logged, as other
// bad requests are.
func TestBadBatchesAreCounted(t *testing.T) {
	t.Parallel()
	s := start(t, decideSettings(), func(c *Config) { c.DecideAPI = true })
	for range 3 {
		if status, _, body := postBatch(t, s.addr, `{"requests":[{"rule":"none","key":["a"]}]}`); status != 400 {
			t.Fatalf("%d %s", status, body)
		}
	}
	resp := get(t, "http://"+s.addr+"/v1/decide")
	if readAll(t, resp); resp.StatusCode != 405 {
		t.Fatalf("got %d", resp.StatusCode)
	}
	if n := s.decide.Bad()["batch"]; n != 4 {
		t.Errorf("%d counted, want 4", n)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if s.logs.Count("reason=batch") == 0 {
		t.Errorf("not logged:\n%s", s.logs)
	}
}
