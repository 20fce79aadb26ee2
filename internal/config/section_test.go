package config

import (
	"strings"
	"testing"
)

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
		_, name := cutLast(path)
		if got := whereItBelongs(path, name); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
