package server

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/policy"
)

// costed has its costs from X-Cost of 127.0.0.1, and a rule before it that all requests
// are charged by.
func costed(on policy.BadCost) policy.Settings {
	set := perIP()
	set.TrustedProxies = loopback()
	all := set.Rules[0]
	all.Limit.Name, all.Limit.Burst, all.Key = "all", 1000, []policy.KeyPart{{Kind: policy.KeyGlobal}}
	set.Rules[0].CostFrom, set.Rules[0].OnBadCost = policy.CostSource{Header: "X-Cost"}, on
	set.Rules = append([]policy.RuleSpec{all}, set.Rules...)
	return set
}

// What a proxy names is charged, whether fasthttp has read the request or not, and what a
// client smuggles is not: by another spelling, after the body, or without a proxy.
func TestCostOverTheWire(t *testing.T) {
	t.Parallel()
	const head = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Forwarded-For: 192.0.2.1\r\n"
	const body = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Forwarded-For: 192.0.2.1\r\nTransfer-Encoding: chunked\r\n"
	for name, c := range map[string]struct {
		request string
		status  int
		taken   int64 // by the rule, of a burst of 3
	}{
		"named":               {head + "X-Cost: 2\r\n\r\n", 200, 2},
		"in lower case":       {head + "x-cost: 2\r\n\r\n", 200, 2},
		"with a body":         {body + "X-Cost: 2\r\n\r\n1\r\na\r\n0\r\n\r\n", 200, 2},
		"an underscore":       {head + "X_Cost: 2\r\n\r\n", 200, 1},
		"bad and an alias":    {head + "X-Cost: 9\r\nX_Cost: 2\r\n\r\n", 400, 0},
		"twice":               {head + "X-Cost: 2\r\nX-Cost: 2\r\n\r\n", 400, 0},
		"twice, with a body":  {body + "X-Cost: 2\r\nx-cost: 2\r\n\r\n0\r\n\r\n", 400, 0},
		"a trailer":           {body + "\r\n1\r\na\r\n0\r\nX-Cost: 3\r\n\r\n", 200, 1},
		"a named trailer":     {body + "Trailer: X-Cost\r\n\r\n1\r\na\r\n0\r\nX-Cost: 3\r\n\r\n", 200, 1},
		"and a trailer":       {body + "X-Cost: 2\r\n\r\n1\r\na\r\n0\r\nX-Cost: 1\r\n\r\n", 200, 2},
		"bad":                 {head + "X-Cost: none\r\n\r\n", 400, 0},
		"bad, with a body":    {body + "X-Cost: none\r\n\r\n0\r\n\r\n", 400, 0},
		"empty":               {head + "X-Cost:\r\n\r\n", 400, 0},
		"more than the burst": {head + "X-Cost: 4\r\n\r\n", 400, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, costed(policy.BadCostReject))
			resp := raw(t, s.addr, c.request)[0]
			text, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != c.status || c.status == 400 && !strings.Contains(string(text), "The proxy sent a cost") {
				t.Errorf("%d %s", resp.StatusCode, text)
			}
			rules := s.config().Limiter.Rules()
			if got := taken(rules[1], 3); got != c.taken {
				t.Errorf("%d units taken, want %d", got, c.taken)
			}
			bad := uint64(0)
			if c.status == 400 {
				bad = 1
			}
			if all := s.decide.Requests(); s.decide.Bad()["cost"] != bad || rules[1].Stats().BadCosts != bad || all.Allowed != 1-bad || all.Denied != 0 {
				t.Errorf("%v bad, %d by the rule, %+v", s.decide.Bad(), rules[1].Stats().BadCosts, all)
			}
			if bad == 1 {
				eventually(t, func() bool { return s.logs.Count("rule per-ip: bad cost") == 1 })
			}
		})
	}
}

// taken is what a rule of that burst holds of the client behind the proxy. The rule leaks
// a unit in a second: what is left is rounded up.
var clientBehind = netip.MustParseAddr("192.0.2.1")

func taken(r *fastlimit.Rule, burst int64) int64 {
	d := r.Peek(r.AddrKey(clientBehind), 1)
	if d.TimeToEmpty == 0 {
		return 0
	}
	return burst - d.Remaining
}

// deny answers as for a request that costs more than the burst: no time helps.
func TestBadCostIsDenied(t *testing.T) {
	t.Parallel()
	s := start(t, costed(policy.BadCostDeny))
	resp := get(t, "http://"+s.addr+"/", "X-Cost", "x", "X-Forwarded-For", clientBehind.String())
	if resp.StatusCode != http.StatusTooManyRequests || s.decide.Bad()["cost"] != 0 || s.decide.Requests().Denied != 1 {
		t.Errorf("%d, %+v", resp.StatusCode, s.decide.Requests())
	}
	if got := taken(s.config().Limiter.Rules()[1], 3); got != 0 {
		t.Errorf("%d units taken", got)
	}
}

// Clients with a limit of their own are shown that one.
func TestOverrideOverTheWire(t *testing.T) {
	t.Parallel()
	set := perIP()
	set.TrustedProxies = loopback()
	set.Rules[0].Overrides = []policy.Override{
		{Key: []string{clientBehind.String()}, Rate: fastlimit.Rate{N: 1, Per: 60e9}, Burst: 5},
		{Key: []string{"198.51.100.0/24"}, Unlimited: true},
	}
	s := start(t, set)
	ask := func(client string) *http.Response {
		return get(t, "http://"+s.addr+"/", "X-Forwarded-For", client)
	}
	for client, burst := range map[string]int{clientBehind.String(): 5, "203.0.113.9": 3} {
		policy := map[int]string{5: `"per-ip";q=5;w=300`, 3: `"per-ip";q=3;w=10800`}[burst]
		for i := range burst + 1 {
			resp := ask(client)
			if (resp.StatusCode == 200) != (i < burst) {
				t.Fatalf("%s: request %d: %d", client, i, resp.StatusCode)
			}
			if h := resp.Header; i == burst && (h.Get("RateLimit-Policy") != policy || h.Get("X-RateLimit-Remaining") != "0") {
				t.Errorf("%s: %v", client, h)
			}
		}
	}
	for range 9 {
		if resp := ask("198.51.100.7"); resp.StatusCode != 200 {
			t.Fatalf("without limit: %d", resp.StatusCode)
		}
	}
}

// A client at a rate that a proxy names is shown that rate, and the next one another.
func TestNamedRateOverTheWire(t *testing.T) {
	t.Parallel()
	set := perSecond()
	set.TrustedProxies = loopback()
	set.Rules[0].RateFrom = policy.RateSource{Header: "X-Limit", Max: fastlimit.Rate{N: 100, Per: 1e9}}
	s := start(t, set)
	for i := range limit.MaxNamedRates + 6 {
		burst := i%70 + 1 // more rates than are kept
		client := fmt.Sprintf("192.0.2.%d", i)
		for n := range burst + 1 {
			resp := get(t, "http://"+s.addr+"/", "X-Forwarded-For", client, "X-Limit", fmt.Sprintf("%d/h", burst))
			if (resp.StatusCode == 200) != (n < burst) {
				t.Fatalf("%d/h: request %d: %d", burst, n, resp.StatusCode)
			}
			if want := fmt.Sprintf(`"per-ip";q=%d;w=3600`, burst); n == burst && resp.Header.Get("RateLimit-Policy") != want {
				t.Fatalf("%s, want %s", resp.Header.Get("RateLimit-Policy"), want)
			}
		}
	}
}

// With a cost of half a unit six requests fit a burst of three, and clients are shown units.
func TestFractionalCostOverTheWire(t *testing.T) {
	t.Parallel()
	set := perIP()
	set.TrustedProxies = loopback()
	limit := &set.Rules[0].Limit
	limit.Rate, limit.Strict, limit.Cost, limit.Thousandths = fastlimit.Rate{N: 1, Per: 24 * time.Hour}, true, 500, true
	set.Rules[0].CostFrom = policy.CostSource{Header: "X-Cost"}
	s := start(t, set, func(c *Config) { c.DecideAPI = true })
	ask := func(client, cost string) *http.Response {
		if cost == "" {
			return get(t, "http://"+s.addr+"/", "X-Forwarded-For", client)
		}
		return get(t, "http://"+s.addr+"/", "X-Forwarded-For", client, "X-Cost", cost)
	}
	for i := range 6 {
		if resp := ask("192.0.2.1", ""); resp.StatusCode != http.StatusOK {
			t.Errorf("request %d: %d", i, resp.StatusCode)
		}
	}
	resp := ask("192.0.2.1", "")
	if h := resp.Header; resp.StatusCode != http.StatusTooManyRequests || h.Get("X-RateLimit-Remaining") != "0" ||
		!strings.Contains(h.Get("RateLimit-Policy"), "q=3;w=259200") || !strings.HasPrefix(h.Get("Retry-After"), "43") {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	for _, c := range []struct {
		cost string
		want int
	}{{"2.25", 200}, {"0.751", 429}, {"0.0001", 400}, {"0.75", 200}, {"0.001", 429}} {
		if resp := ask("192.0.2.2", c.cost); resp.StatusCode != c.want {
			t.Errorf("cost %s: %d, want %d", c.cost, resp.StatusCode, c.want)
		}
	}
	for cost, want := range map[string]string{
		"0.5": `"allowed":true,"remaining":2`, "0": "cost 0: want at least 1", "3.001": "cost 3.001 is above the burst of 3", "0.0001": "cost 0.0001: want a number of units with up to three decimals",
	} {
		body := `{"requests":[{"rule":"per-ip","key":["192.0.2.` + fmt.Sprint(10+len(cost)) + `"],"cost":` + cost + `}]}`
		resp, err := http.Post("http://"+s.addr+"/v1/decide", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if !strings.Contains(string(text), want) {
			t.Errorf("cost %s: %s, want %s", cost, text, want)
		}
	}
}
