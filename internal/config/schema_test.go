package config

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// compiled is the schema as editors have it.
func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// validates tells what the schema says of a file. ok is false for what is no
// JSON, as a key that is a number.
func validates(s *jsonschema.Schema, text string) (err error, ok bool) { //nolint:revive // the error is what is asked for
	b, err := yaml.YAMLToJSON([]byte(strings.TrimPrefix(text, "\ufeff")))
	if err != nil {
		return nil, false
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return nil, false
	}
	return s.Validate(doc), true
}

// The file in docs is what the command prints.
func TestSchemaFile(t *testing.T) {
	t.Parallel()
	if *update {
		if err := os.WriteFile(filepath.Join("..", "..", "docs", "fastlimit.schema.json"), Schema(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if repoFile(t, "docs", "fastlimit.schema.json") != string(Schema()) {
		t.Error("docs/fastlimit.schema.json is not the schema: go run ./cmd/fastlimit schema > docs/fastlimit.schema.json")
	}
}

// foreignYAML is of Prometheus.
var foreignYAML = regexp.MustCompile(`^(groups|scrape_configs):`)

// Every file that is shown to people is one that the schema accepts: the example,
// and the YAML on all pages.
func TestSchemaAcceptsTheDocuments(t *testing.T) {
	t.Parallel()
	s := compiled(t)
	accept := func(name, text string) {
		if err, ok := validates(s, text); err != nil || !ok {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	accept("fastlimit.example.yaml", repoFile(t, "fastlimit.example.yaml"))
	found := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/recipes/*.md"} {
		pages, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			for _, b := range block.FindAllStringSubmatch(repoFile(t, strings.TrimPrefix(page, "../../")), -1) {
				if b[2] != "yaml" || foreignYAML.MatchString(b[3]) {
					continue
				}
				text := b[3]
				if !hasRules(text) {
					text += rule
				}
				accept(page, text)
				found++
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d blocks", found)
	}
}

// What is refused for its shape, by the parser and by the schema: one broken
// setting in a good file each, by the sections.
var misshapen = map[string][]string{
	"%s\n" + rule: {
		"x: 1", "upstream: ftp://a", "upstream: [http://a]", "upstream: http://a/b", "upstream: 5", "upstream: {}", "upstream: {url: []}", "upstream: {url: http://u@a}", "upstream: {url: http://a, x: 1}", "upstream: {url: http://a, max_connections: 0}", "upstream: {url: http://a, response_timeout: 5}", "heavy_hitters: 5", "listen: 80", "listen: []", "listen:", "listen: {address: 'a:1'}", "listen: [{}]", "listen: [{address: 'a:1', x: 1}]",
		"listen: [['a:1']]", "listen: a", "admin: [a]", "admin: 5", "deny_status: 399", "deny_status: 600", "deny_status: '429'", "deny_status: 4.5", "deny_status: true",
		"trusted_proxies: 10.0.0.0/8", "trusted_proxies: [[a]]", "allow: {}", "client_ip_header: 5", "client_ip_header: ''", "original_request: X-Original", "original_request: 1",
		"on_unnamed: yes", "decide_api: 'true'", "decide_api: 1", "memory: 1", "memory: 1.5GiB", "memory: 64 MO", "memory: -1", "memory: []",
		"denial_logs: 101", "denial_logs: -1", "denial_logs: '5'", "top_talkers: 3", "top_talkers: 1048577", "top_talkers: many",
		"connections: 5", "connections:", "connections: [1]", "connections: {x: 1}", "connections: {max: 0}", "connections: {max: 16777217}", "connections: {max: '5'}",
		"connections: {header_bytes: 1023}", "connections: {body_bytes: many}", "connections: {header_timeout: 5}", "connections: {idle_timeout: forever}",
		"drain: 1s", "drain: {delay: -1s}", "drain: {timeout: [1s]}", "drain: {x: 1s}",
	},
	"redis: {%s}\n" + rule: {
		"", `timeout: 5ms`, `url: a, url_file: b`, `url: "redis://h", x: 1`, `url: "redis://h", timeout: 5`, `url: "redis://h", workers: 65`, `url: "redis://h", queue: 0`,
		`url: "redis://h", tls: "yes"`, `addresses: "h:1"`, `addresses: [h]`, `addresses: ["h:1"], database: -2`, `url: "redis://h", username: 5`, `url: [a]`,
	},
	"postgres: {%s}\n" + rule: {
		"", `timeout: 5ms`, `url: a, url_file: b`, `url: "postgres://h/d", x: 1`, `url: "postgres://h/d", timeout: 5`, `url: "postgres://h/d", workers: 65`,
		`url: "postgres://h/d", queue: 0`, `url: [a]`,
	},
	"cluster: {" + leanCluster + "%s}\n" + rule: {
		", x: 1", ", interval: 5", ", max_bytes: 1", ", max_nodes: 1", ", max_nodes: 1001", ", top_talkers: 3", ", ignore: a", `, ignore: ["a/b"]`, `, node: "a b"`,
		`, join: "h:1"`, `, join: [5]`, ", secret_file: x", ", accept_bans: 1", ", advertise: 5",
	},
	"cluster: {%s}\n" + rule: {"", "name: a", `name: "a b", bind: "a:1", secret: 0123456789abcdef`, `name: a, bind: a, secret: 0123456789abcdef`, `name: a, bind: "a:1"`},
	"rules: %s":              {"", "[]", "5", "{}", "[5]", "[{}]", "[[]]", "[{name: a}]", "[{rate: 5/s}]", "[{name: 5, rate: 5/s}]", "[{name: a, rate: 5}]", "[{name: a, rate: '5'}]", "[{name: a b, rate: 5/s}]"},
	"rules: [{name: a, rate: 5/s, %s}]": {
		"x: 1", "algorithm: a", "algorithm: gcra", "key: []", "key: {}", "key: iq", "key: ip/24", "key: 'header:'", "key: [ip, ip, ip, ip, ip, ip, ip, ip, ip]", "match: 5", "match: {x: 1}", "match: {host: 5}",
		"match: {path: []}", "match: {method: {}}", "burst: 0", "burst: -1", "burst: '5'", "burst: 1.5", "cost: 0", "cost: true", "mode: shadw", "escalate_at: 1.01",
		"escalate_at: -0.1", "escalate_at: '0.5'", "strict: 1", "on_failure: never", "on_failure:",
	},
}

func TestSchemaRefusesWhatTheParserRefuses(t *testing.T) {
	t.Parallel()
	s := compiled(t)
	for frame, all := range misshapen {
		for _, setting := range all {
			text := strings.Replace(frame, "%s", setting, 1)
			if _, err := Parse("f.yaml", []byte(text), noEnv); err == nil {
				t.Errorf("%s: the parser accepts it", text)
			} else {
				checkErrors(t, "f.yaml", text, err)
			}
			if err, ok := validates(s, text); err == nil && ok {
				t.Errorf("%s: the schema accepts it", text)
			}
		}
	}
}

// The golden files of mistakes are no valid ones, and those with mistakes of
// other kinds only are.
func TestSchemaOfTheGoldenFiles(t *testing.T) {
	t.Parallel()
	s := compiled(t)
	for _, text := range goodFiles(t)[:2] {
		if err, ok := validates(s, text); err != nil || !ok {
			t.Errorf("%v\n%s", err, text)
		}
	}
	if err, _ := validates(s, repoFile(t, "internal", "config", "testdata", "network.yaml")); err == nil {
		t.Error("network.yaml: accepted")
	}
}

// The schema refuses no file that the parser accepts, whatever is done to one.
func TestSchemaAcceptsWhatTheParserAccepts(t *testing.T) {
	t.Parallel()
	s := compiled(t)
	accepted := 0
	for _, text := range goodFiles(t) {
		for i, odd := range oddFiles(text) {
			if i%5 != 0 {
				continue
			}
			if _, err := Parse("odd.yaml", []byte(odd), noEnv); err != nil {
				continue
			}
			if err, ok := validates(s, odd); err != nil && ok {
				t.Errorf("%s\naccepted by the parser, and: %v", odd, err)
				return
			}
			accepted++
		}
	}
	if accepted < 50 {
		t.Errorf("only %d files accepted", accepted)
	}
}
