package config

import (
	"strings"
	"testing"
	"time"
)

func TestRedisSettings(t *testing.T) {
	t.Parallel()
	c := mustParse(t, withRedis(`addresses: ["h:1"], master_name: m, database: 3, username: u, password: p, sentinel_username: su, sentinel_password: sp,
  tls: true, server_name: n, workers: 4, queue: 100, retry_min: 50ms, retry_max: 3s, timeout: 9ms, key_prefix: k`))
	r := c.Redis
	if r.DB != 3 || r.SentinelUsername != "su" || r.SentinelPassword != "sp" || !r.TLS || r.ServerName != "n" ||
		r.Workers != 4 || r.Queue != 100 || r.RetryMin != 50*time.Millisecond || r.RetryMax != 3*time.Second {
		t.Errorf("%+v", r)
	}
	for _, tt := range []struct{ settings, want string }{
		{`url: "redis://h/x"`, `1:14: redis.url: database "x" is not a number from 0; write redis://`},
		{`url: "redis://h/-1"`, `database "-1" is not a number from 0`},
		{`url: "redis://h/99999999999"`, `database "99999999999" is not a number from 0`},
		{`url: "redis://h/1/2"`, `database "1/2" is not a number from 0`},
		{`url: "redis://h?db=x"`, `database "x" is not a number from 0`},
		{`url: "unix:///s?db=x"`, `database "x" is not a number from 0`},
		{`url: "redis://h?max_retries=3"`, "has a query parameter other than one db; write the settings beside url"},
		{`url: "redis://h:0"`, `port "0" is not a number from 1 to 65535`},
		{`url: "redis://h:70000"`, `port "70000" is not a number from 1 to 65535`},
		{`url: "redis://:s3#cret@h"`, "percent-encode the special characters of a password"},
		{`url: "redis://h/2", cluster: true`, "redis.cluster: a cluster has only database 0, and the URL names another"},
		{`url: "redis://h", database: 2`, "redis.database: is for addresses; write it into the URL: redis://host:6379/2"},
		{`addresses: ["h:1"], database: -2`, `redis.database: "-2" is not a whole number; write for example 0`},
		{`addresses: ["h:1"], database: 2, cluster: true`, "redis.database: a cluster has only database 0"},
		{`addresses: ["h:1"], sentinel_password: x`, "redis.sentinel_password: needs master_name: it is for sentinels"},
		{`addresses: ["h:1"], master_name: m, sentinel_username: x`, "redis.sentinel_username: has no password beside it"},
		{`url: "redis://h", password: x, password_file: y`, "redis.password_file: password is set too; remove one of the two"},
		{`url: "rediss://h", tls: false`, "redis.tls: false beside a URL of rediss://"},
		{`url: "redis://h", tls: false, ca_file: x`, "redis.tls: false beside ca_file or cert_file"},
		{`url: "redis://h", tls: yes`, "redis.tls: \"yes\" is neither true nor false"},
		{`url: "redis://h", server_name: x`, "redis.server_name: has no meaning without TLS"},
		{`url: "redis://h", workers: 65`, "redis.workers: 65 is out of range; want 1 to 64"},
		{`url: "redis://h", queue: 0`, "redis.queue: 0 is too small"},
		{`url: "redis://h", retry_min: 2m`, "redis.retry_min: 2m is out of range; want 1ms to 1m"},
		{`url: "redis://h", retry_min: 3s`, "redis.retry_min: 3s is above retry_max, which is 2s; lower it, or raise retry_max"},
		{`url: "redis://h", retry_max: 50ms`, "redis.retry_max: 50ms is below retry_min, which is 100ms"},
	} {
		_, err := Parse("f.yaml", []byte(withRedis(tt.settings)), noEnv)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3") {
			t.Errorf("%s:\ngot  %v\nwant %s", tt.settings, err, tt.want)
		}
	}
}

// A wrong indentation is called one, at its line.
func TestIndentation(t *testing.T) {
	t.Parallel()
	const alike = "; indent all settings of a block alike"
	for text, want := range map[string]string{
		"rules:\n- name: a\n  rate: 1/s\n   burst: 5\n":                    "f.yaml:3:9: line 4 is indented more than this one, which has a value" + alike,
		"rules:\n  - name: a\n   rate: 1/s\n":                              "f.yaml:3:4: indented unlike the settings it belongs to" + alike,
		"rules:\n  - name: a\n  rate: 1/s\n":                               "f.yaml:3:3: indented unlike the settings it belongs to" + alike,
		" admin: 127.0.0.1:80\nrules:\n":                                   "f.yaml:2:1: indented unlike the settings it belongs to" + alike,
		"rules:\n- name: a\nrate: 1/s\n":                                   "f.yaml:3:1: rate: unknown setting here; it belongs in a rule, indented like its name; valid here: listen",
		"redis:\nurl: redis://h\n" + rule:                                  "f.yaml:2:1: url: unknown setting here; it belongs in redis, indented more than redis",
		"rules:\n- name: a\n  rate: 1/s\n  match:\n  path: /x\n":           "f.yaml:5:3: rules[0].path: unknown setting here; it belongs in match, indented more than match",
		"rules:\n- name: a\n  rate: 1/s\n  memory: 1MiB\n":                 "f.yaml:4:3: rules[0].memory: unknown setting here; it belongs at the top level",
		"rules:\n- name: a\n  match:\n    path: /x\n    rate: 1/s\n":       "f.yaml:5:5: rules[0].match.rate: unknown setting here; it belongs in a rule, indented like its name",
		"cluster:\nbind: 10.0.0.1:1\n" + rule:                              "f.yaml:1:1: cluster: has no value; want settings: write for example cluster: {name: edge",
		"rules:\n  -name: a\n   rate: 1/s\n":                               "f.yaml:2:10: no space after the dash; write - name: with one",
		"rules:\n  - name: a\n    rate:1/s\n":                              `f.yaml:3:5: no space after "rate:"; write one between it and the value`,
		"admin:127.0.0.1:80\n" + rule:                                      `f.yaml:1:1: no space after "admin:"; write one`,
		"redis: {host: h}\n" + rule:                                        "f.yaml:1:9: redis.host: unknown setting; valid here: url",
		"rules:\n  - name: a\n    rate: 1/s\n    key: header: X-Api-Key\n": "f.yaml:4:10: YAML: mapping value is not allowed in this context; indent all settings of a block alike, and put a value that contains \": \" in quotes",
	} {
		_, err := Parse("f.yaml", []byte(text), noEnv)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// A message sends a setting to the one place where it may stand, and only there.
func TestHomes(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"url": redisSettings.where, "retry_max": redisSettings.where, "rate": ruleSettings.where, "secret": clusterSettings.where,
		"header_bytes": connectionSettings.where, "delay": drainSettings.where,
		"timeout": "", "max_per_client": "", "name": "", "top_talkers": "", "path": "", "address": "", "upstream": "", // in several places, or none
		"rules[0].path": matchSettings.where, "rules[0].memory": topSettings.where, "rules[0].match.rate": ruleSettings.where, "redis.rules": topSettings.where,
		"rules[0].url": "",
	} {
		_, name, _ := cutLast(path)
		if got := whereItBelongs(path, name); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// What switches the limiter off is warned of, with what to write.
func TestWarningsOfWhatSwitchesItOff(t *testing.T) {
	t.Parallel()
	match := func(s string) string { return "rules: [{name: a, rate: 100/s, match: {" + s + "}}]" }
	key := func(s string) string { return "rules: [{name: a, rate: 100/s, key: " + s + "}]" }
	for text, want := range map[string]string{
		"allow: [0.0.0.0/0]\n" + key("ip"):                            "allow: 0.0.0.0/0 is every IPv4 client: no rule limits any of them; remove it",
		"allow: ['::/0']\n" + key("ip"):                               "allow: ::/0 is every IPv6 client",
		"allow: [128.0.0.0/1]\n" + key("ip"):                          "allow: 128.0.0.0/1 is a large part of the IPv4 internet",
		"allow: [2.0.0.0/7]\n" + key("ip"):                            "allow: 2.0.0.0/7 is a large part of the IPv4 internet",
		"allow: ['fc00::/6']\n" + key("ip"):                           "allow: fc00::/6 is a large part of the IPv6 internet",
		"allow: ['2000::/3']\n" + key("ip"):                           "allow: 2000::/3 is a large part of the IPv6 internet",
		"allow: [10.0.0.0/8, 'fc00::/7', 192.0.2.0/24]\n" + key("ip"): "",
		"deny: [0.0.0.0/0]\n" + key("ip"):                             "",
		key("header:X-Forwarded-For"):                                 "rule a: key header:X-Forwarded-For: any client can send another value each time, and so is never limited; write key: ip, with trusted_proxies and client_ip_header: X-Forwarded-For",
		key("[host, header:cf-connecting-ip]"):                        "rule a: key header:Cf-Connecting-Ip: any client",
		key("[ip, header:X-Api-Key]"):                                 "",
		match("method: GTE"):                                          "rule a: match.method: GTE is no method that clients are known to send; did you mean GET?",
		match("method: FROBNICATE"):                                   "rule a: match.method: FROBNICATE is no method that clients are known to send; write for example GET",
		match("method: [GET, PROPFIND, QUERY, PURGE]"):                "",
		match("path: '/users/:id'"):                                   `rule a: match.path: path pattern "/users/:id": :id matches only itself, as only * stands for any text; write "/users/*"`,
		match("path: '/api/.*'"):                                      `rule a: match.path: path pattern "/api/.*": patterns are not regular expressions, only * stands for any text; write "/api/*"`,
		match("path: [/api/*, '*.php', /login]"):                      "",
	} {
		c := mustParse(t, text)
		all := Warnings(c, plan(t, c))
		switch {
		case want == "" && len(all) > 0:
			t.Errorf("%s: warnings %q", text, all)
		case want != "" && (len(all) != 1 || !strings.HasPrefix(all[0], want)):
			t.Errorf("%s:\ngot  %q\nwant %q", text, all, want)
		}
	}
}
