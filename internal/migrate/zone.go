package migrate

import (
	"fmt"
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/migrate/nginxconf"
	"github.com/fastlimit/fastlimit/policy"
)

// zone is a limit_req_zone or a limit_conn_zone.
type zone struct {
	name, place string
	key         []policy.KeyPart
	rate        fastlimit.Rate
	problem     string // why it cannot be translated
	notes       []string
}

// maxKeyParts is how many parts a key of the file may have.
const maxKeyParts = 8

// addZone reads a zone. A problem is told where the zone is used: one that is not
// used limits nobody.
func (m *migration) addZone(zones map[string]*zone, d *nginxconf.Directive) {
	z := &zone{place: d.Place()}
	key := ""
	for i, arg := range d.Args {
		switch name, value, _ := strings.Cut(arg, "="); {
		case name == "zone": // NAME:SIZE; the size means nothing here
			z.name, _, _ = strings.Cut(value, ":")
		case name == "rate":
			z.readRate(value)
		case i == 0:
			key = arg
		case arg == "sync":
			z.notes = append(z.notes, "sync: nodes share limits through redis or cluster")
		}
	}
	if z.name == "" {
		m.lose(d.Place(), "%s: has no zone=NAME:SIZE", text(d))
		return
	}
	if d.Name == "limit_req_zone" && z.rate.N == 0 && z.problem == "" {
		z.rate = fastlimit.Rate{N: 1, Per: time.Second} // nginx's default
	}
	m.readKey(z, key)
	zones[z.name] = z
}

var rateForm = regexp.MustCompile(`^([0-9]+)r/([sm])$`)

// readRate reads a rate. nginx keeps thousandths of a request per second, so that
// 1r/m is 0.016 there and exactly a sixtieth here.
func (z *zone) readRate(s string) {
	f := rateForm.FindStringSubmatch(s)
	if f == nil {
		z.problem = fmt.Sprintf("rate=%s is not like 10r/s or 30r/m", s)
		return
	}
	n, err := strconv.ParseUint(f[1], 10, 32)
	if err != nil || n == 0 {
		z.problem = fmt.Sprintf("rate=%s is out of range", s)
		return
	}
	z.rate = fastlimit.Rate{N: n, Per: map[string]time.Duration{"s": time.Second, "m": time.Minute}[f[2]]}
}

var variable = regexp.MustCompile(`\$(?:([A-Za-z0-9_]+)|\{([A-Za-z0-9_]+)\})`)

// readKey reads a key of variables. Text between them is only a separator.
func (m *migration) readKey(z *zone, key string) {
	for _, f := range variable.FindAllStringSubmatch(key, -1) {
		part, note, problem := keyPart(f[1] + f[2])
		if problem != "" {
			// The usual reason is a map to an empty key, for which nginx has no limit.
			if place := m.variables[f[1]+f[2]]; place != "" {
				problem = fmt.Sprintf("$%s is set by %s: if it exempts clients, list them under allow", f[1]+f[2], place)
			}
			z.problem = problem
			return
		}
		if note != "" {
			z.notes = append(z.notes, note)
		}
		if !slices.Contains(z.key, part) {
			z.key = append(z.key, part)
		}
	}
	if len(z.key) == 0 { // text alone: one bucket for all
		z.key = []policy.KeyPart{{Kind: policy.KeyGlobal}}
	}
	if len(z.key) > maxKeyParts {
		z.problem = fmt.Sprintf("its key has %d parts, and a key has at most %d", len(z.key), maxKeyParts)
	}
}

// keyParts are the variables that are parts of a key by another name.
var keyParts = map[string]struct {
	kind policy.KeyKind
	note string
}{
	"binary_remote_addr": {policy.KeyIP, ""},
	"remote_addr":        {policy.KeyIP, ""},
	"realip_remote_addr": {policy.KeyIP, "$realip_remote_addr is the proxy's address; with trusted_proxies, ip is that of the client"},
	"host":               {policy.KeyHost, ""},
	"http_host":          {policy.KeyHost, ""},
	"server_name":        {policy.KeyHost, "$server_name is the name of the server block, host is what the client asks for"},
	"uri":                {policy.KeyPath, ""},
	"document_uri":       {policy.KeyPath, ""},
	"request_uri":        {policy.KeyPath, "$request_uri includes the query, path does not"},
	"request_method":     {policy.KeyMethod, ""},

	"proxy_protocol_addr": {policy.KeyIP, "$proxy_protocol_addr comes from a proxy: name the proxy in trusted_proxies"},
}

// keyPart is the part of a key that a variable stands for, a note on how it differs
// if it does, and the problem if there is none.
func keyPart(name string) (part policy.KeyPart, note, problem string) {
	if known, ok := keyParts[name]; ok {
		return policy.KeyPart{Kind: known.kind}, known.note, ""
	}
	// nginx writes dashes of a header as underscores, so one that has underscores
	// itself is read as another; clients rarely send such.
	if header, ok := strings.CutPrefix(name, "http_"); ok {
		header = textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(header, "_", "-"))
		part = policy.KeyPart{Kind: policy.KeyHeader, Name: header}
		if header == "X-Forwarded-For" || header == "X-Real-Ip" {
			note = "any client can write " + header + ": better use key: ip, with trusted_proxies and client_ip_header: " + header
		}
	} else if cookie, ok := strings.CutPrefix(name, "cookie_"); ok {
		part = policy.KeyPart{Kind: policy.KeyCookie, Name: cookie}
	} else {
		return part, "", fmt.Sprintf("$%s cannot be a part of a key here", name)
	}
	if policy.CheckKeyPart(part) != nil {
		return part, "", fmt.Sprintf("$%s does not name a header or cookie", name)
	}
	return part, note, ""
}

// number is a whole number from 0 to most.
func number(s string, most int) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n > uint64(most) {
		return 0, false
	}
	return int(n), true
}
