package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit/policy"
)

// maxShownKeys bounds show_keys: no rules have so many headers.
const maxShownKeys = 256

// shownKeys are names of headers and cookies, or true for all of them.
func shownKeys() value {
	name := text("text", "the name of a header or cookie such as X-Tenant")
	v := oneOrMore("list of names, or `true`", maxShownKeys, "names", name)
	v.schema = schema{"anyOf": []schema{{"type": "boolean"}, oneOrMoreSchema(name.schema, maxShownKeys)}}
	list := v.read
	v.read = func(d *decoder, n *node, to reflect.Value) bool {
		switch n.text {
		case "true":
			to.Set(reflect.ValueOf([]string{policy.ShowAllKeys}))
			return true
		case "false":
			return true
		}
		return list(d, n, to)
	}
	return v
}

// warnShownKeys warns of names in show_keys that no key has.
func warnShownKeys(c *Config, warn warnFunc) {
	for _, name := range c.Policy.ShowKeys {
		used := name == policy.ShowAllKeys || slices.ContainsFunc(c.Policy.Rules, func(r policy.RuleSpec) bool {
			return slices.ContainsFunc(r.Key, func(p policy.KeyPart) bool { return strings.EqualFold(p.Name, name) })
		})
		if !used {
			warn("show_keys: no rule counts by a header or cookie %s", quote(name))
		}
	}
}
