package replay

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/policy"
)

const caddyLine = `{"level":"info","ts":1646861401.5241024,"logger":"http.log.access","msg":"handled request","request":{` +
	`"remote_ip":"127.0.0.1","remote_port":"41342","client_ip":"203.0.113.9","proto":"HTTP/2.0","method":"GET","host":"Example.com:443",` +
	`"uri":"/a%20b?q=\"","headers":{"User-Agent":["curl/7.82.0"],"X-Api-Key":["k1","k2"],"Cookie":["a=1; sid=s1"]}},"duration":0.0009,"size":10900,"status":200}`

// nginxLine is of log_format escape=json.
const nginxLine = `{"time":"2022-03-09T21:30:01+00:00","msec":"1646861401.524","remote_addr":"203.0.113.9","request":"GET /a%20b HTTP/1.1",` +
	`"host":"example.com","http_x_api_key":"k1","cookie_sid":"-","nested.name":"dots","upstream":{"addr":"10.0.0.1:80"}}`

var nginxFields = FieldMap{
	"time": "msec", "client": "remote_addr", "request": "request", "host": "host", "header:x-api-key": "http_x_api_key", "cookie:sid": "cookie_sid",
	"header:X-Dots": "nested.name", "header:X-Nested": "upstream.addr",
}

func TestParseJSON(t *testing.T) {
	t.Parallel()
	all := needs{header("X-Api-Key"), cookieKey("sid"), header("X-Dots"), header("X-Nested")}
	for _, tt := range []struct {
		name, line string
		fields     FieldMap
		want       string // time, client, method, target, host and names
	}{
		{"Caddy", caddyLine, nil, `1646861401524102 203.0.113.9 GET "/a%20b?q=\"" Example.com:443 k1 s1 - -`},
		{"nginx", nginxLine, nginxFields, `1646861401524000 203.0.113.9 GET "/a%20b" example.com k1 - dots 10.0.0.1:80`},
		{"older Caddy", `{"ts":1,"request":{"remote_addr":"[2001:db8::1]:41342","method":"GET","uri":"/"}}`, nil, `1000000 2001:db8::1 GET "/"  - - - -`},
		{"fastlimit", `{"time":"2026-11-23T01:02:03.004005Z","client":"192.0.2.7","peer":"10.0.0.1","method":"GET","host":"a.example","path":"/x?y=1","status":429,"bytes":180,"duration":0.000021}`, nil, `1795395723004005 192.0.2.7 GET "/x?y=1" a.example - - - -`},
		{"no request", `{"ts":1,"request":{"remote_ip":"192.0.2.7"}}`, nil, `1000000 192.0.2.7  ""  - - - -`},
		{"secrets", `{"ts":1,"request":{"remote_ip":"192.0.2.7","headers":{"Cookie":["REDACTED"],"X-Api-Key":["REDACTED"]}}}`, nil, `1000000 192.0.2.7  ""  - - - -`},
	} {
		p := parser{Map: tt.fields, Needs: all}
		for range 2 { // a parser is used again
			l, err := p.parse([]byte(tt.line))
			if err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
			if got := jsonText(&l); got != tt.want {
				t.Errorf("%s:\ngot  %s\nwant %s", tt.name, got, tt.want)
			}
		}
	}
	for line, want := range map[string]error{
		"{":                    errNotJSON,
		"{}x":                  errNotJSON,
		"{}":                   errJSONTime,
		`{"ts":"yesterday"}`:   errJSONTime,
		`{"ts":{"x":1}}`:       errJSONTime,
		`{"ts":null}`:          errJSONTime,
		`{"ts":1}`:             errJSONClient,
		`{"ts":1,"request":5}`: errJSONClient,
		`{"ts":1,"request":{"remote_ip":"0.0.0.0"}}`:              errJSONClient,
		`{"ts":1,"request":{"remote_ip":"example.com"}}`:          errJSONClient,
		strings.Repeat(`{"a":`, 5000) + strings.Repeat("}", 5000): errNotJSON,
	} {
		var p parser
		if _, err := p.parse([]byte(line)); !errors.Is(err, want) {
			t.Errorf("%.60s: %v, want %v", line, err, want)
		}
	}
}

func TestFieldMapErrors(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"tim":     `"tim" is not a field; want time, client, method, target, host, request, header:NAME or cookie:NAME`,
		"header:": `"header:" is not a field`,
		"x:y":     `"x:y" is not a field`,
		"time":    `"time" is empty; write for example time=remote_addr`,
	} {
		c := perIP("1/s", 1)
		c.Fields = FieldMap{name: "x"}
		if name == "time" {
			c.Fields[name] = ""
		}
		_, err := run(t.Context(), strings.NewReader(caddyLine), c)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Rules by header and cookie apply to lines that have them.
func TestJSONReachesRules(t *testing.T) {
	t.Parallel()
	keys := []policy.KeyPart{{Kind: policy.KeyHeader, Name: "X-Api-Key"}, {Kind: policy.KeyCookie, Name: "sid"}, {Kind: policy.KeyHost}}
	c := config(policy.Settings{Rules: []policy.RuleSpec{rule("r", "1/d", 1, keys...)}, ShowKeys: []string{"sid"}})
	r := mustRun(t, caddyLine+"\n"+caddyLine+"\n"+caddyLine+"\n", c)
	if r.Denied != 2 || r.Clients[0].ExactDenied != 2 || !strings.HasPrefix(r.Clients[0].Key, "#") || !strings.HasSuffix(r.Clients[0].Key, " s1 example.com") || len(r.Warnings) != 0 {
		t.Errorf("%+v", r)
	}
	c.Fields = nginxFields
	if r := mustRun(t, nginxLine+"\n", c); len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "the log has no cookie:sid") {
		t.Errorf("%+v", r)
	}
}

func jsonText(l *logLine) string {
	all := []string{itoa(l.Time), l.Client.String(), string(l.Method), quoteText(l.Target), string(l.VHost)}
	for _, v := range l.Values {
		if v == nil {
			v = []byte("-")
		}
		all = append(all, string(v))
	}
	return strings.Join(all, " ")
}

func FuzzParseJSON(f *testing.F) {
	for _, s := range []string{caddyLine, nginxLine, "{}", `{"ts":1e9,"request":{"headers":{"X-Api-Key":[]}}}`, `{"a.b":{"c":[1,{"d":null}]}}`} {
		f.Add(s, "time", "request.headers.X.0")
	}
	f.Fuzz(func(t *testing.T, line, name, path string) {
		p := parser{Map: FieldMap{name: path}, Needs: needs{header("X"), cookieKey("c")}}
		if p.Map.Check() != nil {
			return
		}
		l, err := p.parse([]byte(line))
		if err != nil {
			return
		}
		if !l.Client.IsValid() || l.Client.Is4In6() || l.Client.Zone() != "" {
			t.Errorf("client %v", l.Client)
		}
		if strings.HasPrefix(line, "{") && len(l.Values) != 2 {
			t.Errorf("%d values", len(l.Values))
		}
	})
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func quoteText(b []byte) string { return strconv.Quote(string(b)) }
