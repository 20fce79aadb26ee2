package config

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/server"
)

// files is a machine with these files.
func files(all map[string]string) machine {
	return machine{readFile: func(path string) ([]byte, error) {
		if text, ok := all[path]; ok {
			return []byte(text), nil
		}
		return nil, errors.New("no such file")
	}}
}

func TestAnswersOfAListener(t *testing.T) {
	t.Parallel()
	c, err := parse("f.yaml", []byte(`
deny_status: 420
listen:
  - {address: "a:1", headers: [ratelimit, ratelimit-legacy, x-ratelimit, x-ratelimit-limit], headers_on: always}
  - {address: "a:2", headers: none, denial: {content_type: "text/html; charset=utf-8", body_file: busy.html}}
  - {address: "a:3", headers: x-ratelimit, headers_on: denials, deny_status: 403}
  - a:4
`+rule), noEnv, files(map[string]string{"busy.html": "in {{retry_after}} s\r\n\n"}))
	if err != nil {
		t.Fatal(err)
	}
	want := []server.Listener{
		{
			Address: "a:1", DenyStatus: 420, HeadersOn: server.HeadersAlways,
			Headers: []server.HeaderSet{server.RateLimitHeaders, server.RateLimitLegacyHeaders, server.XRateLimitHeaders, server.XRateLimitLimitHeaders},
		},
		{
			Address: "a:2", DenyStatus: 420, Headers: []server.HeaderSet{server.NoHeaders},
			Denial: server.Denial{ContentType: "text/html; charset=utf-8", Body: "in {{retry_after}} s\r\n\n"},
		},
		{Address: "a:3", DenyStatus: 403, Headers: []server.HeaderSet{server.XRateLimitHeaders}},
		{Address: "a:4", DenyStatus: 420},
	}
	if !reflect.DeepEqual(c.Server.Listeners, want) {
		t.Errorf("got\n%+v\nwant\n%+v", c.Server.Listeners, want)
	}
}

// Names in the file are those that package server has for its constants.
func TestNamesOfHeaderSets(t *testing.T) {
	t.Parallel()
	for set := server.RateLimitHeaders; set <= server.NoHeaders; set++ {
		for on := server.HeadersOnDenials; on <= server.HeadersAlways; on++ {
			if set == server.NoHeaders && on == server.HeadersAlways {
				continue
			}
			c := mustParse(t, "listen: [{address: 'a:1', headers: ["+set.String()+"], headers_on: "+on.String()+"}]\n"+rule)
			if l := c.Server.Listeners[0]; l.Headers[0] != set || l.HeadersOn != on {
				t.Errorf("%v, %v: %+v", set, on, l)
			}
		}
	}
}

func TestMistakesInAnswers(t *testing.T) {
	t.Parallel()
	m := files(map[string]string{"busy.html": "<p>\nin {{retry}} s", "large.html": strings.Repeat("x", 16<<10+1), "good.html": "busy"})
	const denial = "denial: {content_type: text/html, body_file: "
	for settings, want := range map[string]string{
		"headers: [ratelimit, none]":          `f.yaml:1:46: listen[0].headers[1]: none stands beside others; write none alone, or remove it`,
		"headers: [none, ratelimit]":          `f.yaml:1:35: listen[0].headers[0]: none stands beside others; write none alone, or remove it`,
		"headers: [ratelimit, x-rate]":        `f.yaml:1:46: listen[0].headers[1]: "x-rate" is not a known value; write ratelimit, ratelimit-legacy, x-ratelimit, x-ratelimit-limit or none`,
		"headers: RateLimit":                  `f.yaml:1:34: listen[0].headers: "RateLimit" is not a known value; write ratelimit, ratelimit-legacy, x-ratelimit, x-ratelimit-limit or none`,
		"headers: [x-ratelimit, x-ratelimit]": `f.yaml:1:48: listen[0].headers[1]: x-ratelimit stands there twice; remove it`,
		"headers: []":                         `f.yaml:1:34: listen[0].headers: the list is empty; write an element, or remove the setting`,
		"headers: [none, ratelimit, x-ratelimit, ratelimit-legacy, x-ratelimit-limit]": `f.yaml:1:35: listen[0].headers[0]: none stands beside others; write none alone, or remove it`,
		"headers: {a: b}":                                    `f.yaml:1:34: listen[0].headers: found a mapping; want ratelimit, ratelimit-legacy, x-ratelimit, x-ratelimit-limit or none`,
		"headers_on: all":                                    `f.yaml:1:37: listen[0].headers_on: "all" is not a known value; write denials or always`,
		"headers: none, headers_on: always":                  `f.yaml:1:52: listen[0].headers_on: always shows nothing, as headers are none; name headers, or remove it`,
		denial + "none.html}":                                `f.yaml:1:70: listen[0].denial.body_file: "none.html" no such file; name a file that can be read`,
		denial + "large.html}":                               `f.yaml:1:70: listen[0].denial.body_file: "large.html" has 16385 bytes; want at most 16384, as every denial sends them`,
		denial + "busy.html}":                                `f.yaml:1:70: listen[0].denial.body_file: "busy.html" at 2:4: "{{retry}}" is not a placeholder; write {{retry_after}}, or a blank between braces that mean themselves`,
		"denial: {content_type: html, body_file: good.html}": `f.yaml:1:48: listen[0].denial.content_type: "html" is not a media type; want a media type such as text/html; charset=utf-8`,
		"denial: {body_file: good.html}":                     `f.yaml:1:33: listen[0].denial.content_type: missing; write for example "text/html; charset=utf-8"`,
		"denial: {content_type: text/html}":                  `f.yaml:1:33: listen[0].denial.body_file: missing; name a file with the body`,
		"denial: busy.html":                                  `f.yaml:1:33: listen[0].denial: found the text "busy.html"; want settings, such as {content_type: text/html, body_file: busy.html}`,
		"denial: {content_type: html, body_file: busy.html}": "f.yaml:1:48: listen[0].denial.content_type: \"html\" is not a media type; want a media type such as text/html; charset=utf-8\n" + `f.yaml:1:65: listen[0].denial.body_file: "busy.html" at 2:4: "{{retry}}" is not a placeholder; write {{retry_after}}, or a blank between braces that mean themselves`,
	} {
		_, err := parse("f.yaml", []byte("listen: [{address: a:1, "+settings+"}]\n"+rule), noEnv, m)
		if err == nil || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", settings, err, want)
		}
	}
	_, err := Parse("f.yaml", []byte("listen: [{address: a:1, "+denial+"good.html}}]\n"+rule), noEnv)
	if err == nil || !strings.Contains(err.Error(), `"good.html" is not read here; load the configuration from a file`) {
		t.Errorf("without files: %v", err)
	}
}
