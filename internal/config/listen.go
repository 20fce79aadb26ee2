package config

import (
	"fmt"
	"io/fs"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/server"
)

const (
	defaultListen = "127.0.0.1:8080"
	maxListeners  = 64 // every pair is compared
)

var listenSettings = section{
	name: "listener", want: "an address", where: "in an element of listen",
	settings: []setting{
		{
			name: "address", field: "Address", value: socketAddress(), required: `write for example {address: "127.0.0.1:8080", deny_status: 403}`,
			doc: "`host:port`, `unix:` and the path of a socket, or `systemd:` and the name of one",
		},
		{name: "mode", field: "Mode", value: socketMode(), shown: "`\"0660\"`", doc: "permissions of a Unix socket: users that may write to it may connect"},
		{name: "proxy_protocol", field: "ProxyProtocol", value: prefixes(), shown: "none", doc: "balancers that name the client in the PROXY protocol"},
		{name: "tls", field: "TLS", value: mapping(&tlsSettings), shown: "none", doc: "certificate of a listener that speaks HTTPS"},
		{name: "defer_accept", field: "NoDeferAccept", value: unless(), def: "true", doc: "accept a TCP connection only when its client has sent something, or after a second or two (Linux)"},
		{name: "reuse_port", field: "ReusePort", value: boolean(), def: "false", doc: "the process that replaces this one may listen before this one ends (Linux)"},
		{name: "deny_status", field: "DenyStatus", value: denyStatus(), shown: "that of the top level", doc: "status code of a denial"},
		{name: "original_request", field: "OriginalRequest", value: originalRequest(), shown: "that of the top level", doc: "the headers that describe the original request"},
		{name: "headers", field: "Headers", value: headerSets(), shown: "`ratelimit` and `x-ratelimit`", doc: "header fields that describe the client's limit; every denial also has `Retry-After`"},
		{name: "headers_on", field: "HeadersOn", value: choice("denials", "always"), def: "denials", doc: "which answers have these fields: `always` includes admissions"},
		{name: "denial", field: "Denial", value: mapping(&denialSettings), shown: "a problem document", doc: "body of denials by a rule"},
	},
}

var denialSettings = section{
	name: "denial", want: "settings, such as {content_type: text/html, body_file: busy.html}", where: "in denial, indented more than denial",
	settings: []setting{
		{name: "content_type", field: "ContentType", value: text("media type", "a media type such as text/html; charset=utf-8"), required: `write for example "text/html; charset=utf-8"`, doc: "media type of the body"},
		{name: "body_file", field: "Body", value: bodyFile(), required: "name a file with the body", doc: "a file of at most 16 KiB, read at start and on reload; `{{retry_after}}` in it is replaced by the seconds of `Retry-After`"},
	},
}

// denyStatus is the status code of an error: proxies take 2xx for consent.
func denyStatus() value {
	return whole(number{
		least: 400, most: 599, example: "429",
		outside: "is not the status code of an error", why: ", for example 429 or, for nginx auth_request, 403",
	})
}

// listeners is an address, which is all that most files need, or a list. An element of
// the list is an address or a mapping, which may set more; a mapping outside of a list
// is not accepted.
func listeners() value {
	element := mapping(&listenSettings)
	one := socketAddress()
	v := oneOrMore("address, or list of addresses", maxListeners, "addresses", value{
		section: &listenSettings,
		read: func(d *decoder, n *node, to reflect.Value) bool {
			if n.kind == isMapping && strings.HasSuffix(n.path, "]") {
				return element.read(d, n, to)
			}
			return one.read(d, n, to.FieldByName("Address"))
		},
	})
	v.schema = schema{"anyOf": []schema{one.schema, {
		"type": "array", "items": schema{"anyOf": []schema{one.schema, element.schema}}, "minItems": 1, "maxItems": maxListeners,
	}}}
	return v
}

// socketMode is the permissions of a Unix socket in octal, as chmod takes them. Without
// quotes it would be another number in YAML 1.1 than in 1.2.
func socketMode() value {
	return valueOf("permissions", patternSchema("^0?[0-7]{3}$"), func(d *decoder, n *node) (fs.FileMode, bool) {
		const want = `permissions in quotes, such as "0660"`
		s, ok := d.text(n, want)
		if !ok {
			return 0, false
		}
		mode, err := strconv.ParseUint(s, 8, 32)
		if err != nil || len(strings.TrimPrefix(s, "0")) > 3 || len(s) < 3 {
			d.fail(n, quote(s)+" is not a mode of three octal digits", "want "+want)
			return 0, false
		}
		if mode == 0 { // to package server that is the default
			d.fail(n, quote(s)+" lets nobody connect", "want "+want)
			return 0, false
		}
		return fs.FileMode(mode), true
	})
}

// headerSets is one set of headers or several. The names are those of server.HeaderSet,
// in the same order.
func headerSets() value {
	v := choice("ratelimit", "ratelimit-legacy", "x-ratelimit", "x-ratelimit-limit", "none")
	return oneOrMore(v.docs+", or list of them", 5, "header sets", v)
}

// bodyFile is the path of a file that is sent as it is. Package server checks what
// is in it.
func bodyFile() value {
	return valueOf("path", textSchema(), func(d *decoder, n *node) (string, bool) {
		return d.fileContent(n, "load the configuration from a file")
	})
}

// checkListening fills in the status of denials, and reports two that listen on
// one port of one host.
func (d *decoder) checkListening() {
	c := d.cfg
	for i := range c.Server.Listeners {
		l := &c.Server.Listeners[i]
		if l.DenyStatus == 0 {
			l.DenyStatus = c.DenyStatus // not before all is read: it may stand below listen
		}
		if other := listenerAt(c.Server.Listeners[:i], l.Address, d.machine.resolve); other != "" {
			d.fail(d.place(fmt.Sprintf("Server.Listeners[%d].Address", i)), l.Address+" is already used by the listener "+other, "remove one of the two")
		}
	}
}

// checkListeners has package server check each listener. The body of denials comes from
// a file, which the message names.
func (d *decoder) checkListeners() {
	for i := range d.cfg.Server.Listeners {
		path := fmt.Sprintf("Server.Listeners[%d]", i)
		err := d.cfg.Server.Listeners[i].Validate()
		for _, e := range field.All(err) {
			if n := d.places[join(path, e.Field)]; n != nil && e.Field == "Denial.Body" {
				e.Problem = quote(n.text) + " " + e.Problem
			}
		}
		d.report(path, err)
		d.checkTLS(path, d.cfg.Server.Listeners[i].TLS)
	}
}

// listenerWarnings are about who can connect to a listener.
func listenerWarnings(l *server.Listener, warn warnFunc) {
	if l.Mode&0o002 != 0 {
		warn("listen: %s has mode %04o: every user of this machine may connect and, if 127.0.0.1 is a trusted proxy, pose as any client; write 0660 and use a group", l.Address, l.Mode)
	}
	for _, p := range l.ProxyProtocol {
		if p.Bits() == 0 {
			warn("proxy_protocol: %v trusts everybody: any client may choose the address it is counted by; name the addresses of your balancers", p)
		}
	}
	here := func(p netip.Prefix) bool { return p.Contains(netip.AddrFrom4([4]byte{127, 0, 0, 1})) }
	if strings.HasPrefix(l.Address, "unix:") && len(l.ProxyProtocol) > 0 && !slices.ContainsFunc(l.ProxyProtocol, here) {
		warn("proxy_protocol: the peers of %s count as 127.0.0.1, which is in none of its prefixes, so their headers are refused; add 127.0.0.1", l.Address)
	}
}
