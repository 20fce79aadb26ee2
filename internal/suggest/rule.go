package suggest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/fastlimit/fastlimit/policy"
)

// The default prefix lengths of the key ip.
const (
	defaultIPv4 = 32
	defaultIPv6 = 64
)

// keyPart is a part of a key as a configuration file has it.
func keyPart(p policy.KeyPart, s *policy.RuleSpec) string {
	v4, v6 := cmp.Or(s.Limit.IPv4Prefix, defaultIPv4), cmp.Or(s.Limit.IPv6Prefix, defaultIPv6)
	if p.Kind == policy.KeyIP && (v4 != defaultIPv4 || v6 != defaultIPv6) {
		return fmt.Sprintf("ip/%d/%d", v4, v6)
	}
	return p.String()
}

// keyName names a key for people, with its paths.
func keyName(s *policy.RuleSpec) string {
	name := strings.Join(keyParts(s), ", ")
	if len(s.Match.Paths) > 0 {
		name += " on " + strings.Join(s.Match.Paths, ", ")
	}
	return name
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// ruleNames makes up a name for each rule: per-ip, per-ip-24-48, per-ip-login. Equal ones are numbered.
func ruleNames(specs []policy.RuleSpec) (names []string) {
	taken := map[string]bool{}
	for i := range specs {
		parts := append(keyParts(&specs[i]), specs[i].Match.Paths...)
		text := strings.TrimPrefix(strings.Join(parts, " "), "header:")
		base := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(text), "-"), "-")
		name := "per-" + safeLength(base)
		for n := 2; taken[name]; n++ {
			name = fmt.Sprintf("per-%s-%d", safeLength(base), n)
		}
		taken[name] = true
		names = append(names, name)
	}
	return names
}

// safeLength cuts a name that a long path would make unreadable.
func safeLength(name string) string {
	const longest = 40
	return name[:min(len(name), longest)]
}

// config returns a configuration file with the suggested rules, and the reason for each number.
func (r *Report) config() string {
	var b strings.Builder
	for i := range r.Keys {
		k := &r.Keys[i]
		if len(k.Rows) == 0 {
			continue
		}
		if b.Len() == 0 {
			b.WriteString("rules:\n")
		}
		k.writeRule(&b, r.Spare)
	}
	return b.String()
}

func (k *Key) writeRule(b *strings.Builder, spare string) {
	row := &k.Rows[k.chosen]
	fmt.Fprintf(b, "  - name: %s\n", k.Rule)
	key := make([]string, len(k.Key))
	for i, part := range k.Key {
		key[i] = yamlText(part)
	}
	if len(key) == 1 {
		fmt.Fprintf(b, "    key: %s\n", key[0])
	} else {
		fmt.Fprintf(b, "    key: [%s]\n", strings.Join(key, ", "))
	}
	if len(k.Paths) > 0 {
		paths := make([]string, len(k.Paths))
		for i, p := range k.Paths {
			paths[i] = yamlText(p)
		}
		fmt.Fprintf(b, "    match: {path: [%s]}\n", strings.Join(paths, ", "))
	}
	fmt.Fprintf(b, "    rate: %s # a client over its limit can still make %s in a minute, the fewest of all rates that drain within an hour\n", row.Rate, count(row.InAMinute, "request"))
	fmt.Fprintf(b, "    burst: %d # %s\n", row.Burst, k.whyBurst(row, spare))
	fmt.Fprintf(b, "    mode: shadow # would have denied %s; enforce once its shadow counts look right\n", k.shed(row))
}

// whyBurst gives the reason for the burst of a row.
func (k *Key) whyBurst(row *Row, spare string) string {
	rest := k.Clients - row.Attackers
	who := fmt.Sprintf("%s of the %s needed %d at most", spaced(spare), count(rest, "client"), row.Needed)
	switch {
	case rest == 1:
		who = fmt.Sprintf("the only client needed %d", row.Needed)
	case spare == hundred.String():
		who = fmt.Sprintf("the %s needed %d at most", count(rest, "client"), row.Needed)
	}
	switch row.Attackers {
	case 0:
	case 1:
		who += ", without one that looks like an attack"
	default:
		who += fmt.Sprintf(", without %d that look like attacks", row.Attackers)
	}
	if row.Burst != row.Needed {
		who += "; rounded up"
	}
	return who
}

// shed says what a row's limit would have denied.
func (k *Key) shed(row *Row) string {
	if row.ClientsShed == 0 {
		return "nothing"
	}
	return fmt.Sprintf("at most %s (%s) and %s (%s)", count(row.ClientsShed, "client"), share(row.ClientsShare),
		count(row.RequestsShed, "request"), share(row.RequestsShare))
}

var plainText = regexp.MustCompile(`^[a-z][A-Za-z0-9_/:-]*[A-Za-z0-9_/-]$`)

// yamlText quotes a text for the configuration file. JSON's quoting is also YAML's; a $ before a brace would
// name a variable.
func yamlText(s string) string {
	if plainText.MatchString(s) {
		return s
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // of a text, into memory: cannot fail
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "${", "$${")
}
