package config

import (
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit/internal/systemd"
	"github.com/fastlimit/fastlimit/server"
)

// DefaultAdmin is the address of the admin listener where the file has none.
const DefaultAdmin = "127.0.0.1:8081"

// leastToken is the length of a token that nobody guesses, in characters.
const leastToken = 16

var adminSettings = section{
	name: "admin", want: "an address", where: "in admin, indented more than admin",
	settings: []setting{
		{name: "address", field: "Address", value: socketAddress(), def: DefaultAdmin, doc: "`host:port`, `unix:` and the path of a socket, or `systemd:` and the name of one"},
		{name: "token_file", field: "Token", value: tokenFile(), shown: "none", doc: "a file with the token; changes need one unless the address is on loopback or a socket"},
		{name: "tokens", field: "Tokens", value: listOf("list of tokens", tokensExample, mapping(&tokenSettings)), shown: "none", doc: "more tokens, each with its owner's name"},
	},
}

const tokensExample = "a list such as [{name: alice, file: /etc/fastlimit/alice}, {name: grafana, file: /etc/fastlimit/grafana, scope: read}]"

// tokenSettings fills server.AdminToken.
var tokenSettings = section{
	name: "token", want: "a token such as {name: alice, file: /etc/fastlimit/alice}", where: "in an element of admin.tokens",
	settings: []setting{
		{name: "name", field: "Name", value: nameOf(nameWant, nameRunes), required: "write who has it, for example name: alice", doc: "its owner, for the log"},
		{name: "file", field: "Secret", value: tokenFile(), required: "write for example file: /etc/fastlimit/alice", doc: "a file with the token"},
		{name: "scope", field: "Scope", value: choice("act", "read"), def: "act", doc: "what it permits: changes, or only reading"},
	},
}

// adminListener is the address of the admin listener, or a mapping with a token beside it.
func adminListener() value {
	one, more := socketAddress(), mapping(&adminSettings)
	return value{docs: "address, or mapping", schema: schema{"anyOf": []schema{one.schema, more.schema}}, section: &adminSettings, read: func(d *decoder, n *node, to reflect.Value) bool {
		if n.kind != isMapping {
			return one.read(d, n, to)
		}
		var admin struct {
			Address, Token string
			Tokens         []server.AdminToken
		}
		ok := more.read(d, n, reflect.ValueOf(&admin).Elem())
		if admin.Token != "" {
			admin.Tokens = append(admin.Tokens, server.AdminToken{Secret: admin.Token})
		}
		d.cfg.Server.AdminTokens = admin.Tokens
		to.SetString(admin.Address)
		return d.checkTokens(n, admin.Tokens) && ok
	}}
}

// checkTokens reports tokens that cannot be told apart.
func (d *decoder) checkTokens(n *node, all []server.AdminToken) bool {
	for i := range all {
		for k := range all[:i] {
			switch {
			case all[i].Secret != "" && all[i].Secret == all[k].Secret:
				d.fail(n, fmt.Sprintf("two files contain the same token, one of them that of %q", all[k].Name), "make one for each: openssl rand -hex 32")
				return false
			case all[i].Name != "" && all[i].Name == all[k].Name:
				d.fail(n, fmt.Sprintf("two tokens have the name %q", all[i].Name), "give each its own")
				return false
			}
		}
	}
	return true
}

// tokenFile is a file with a token that HTTP can carry and nobody guesses.
func tokenFile() value {
	content := fileContent()
	return valueOf("path", textSchema(), func(d *decoder, n *node) (token string, ok bool) {
		if !content.read(d, n, reflect.ValueOf(&token).Elem()) {
			return "", false
		}
		if len(token) < leastToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			d.fail(n, "the file does not contain a token", "write at least 16 printable characters without spaces: openssl rand -hex 32 makes one")
			return "", false
		}
		return token, true
	})
}

// checkAdmin reports an admin listener that clients could reach as traffic. Where the
// file does not set admin, the mistake is in listen, and so is the place of the error.
func (d *decoder) checkAdmin() {
	n, listen := d.places["Server.Admin"], d.places["Server.Listeners"]
	other := listenerAt(d.cfg.Server.Listeners, d.cfg.Server.Admin, d.machine.resolve)
	switch {
	case other == "":
	case n != nil:
		d.fail(n, d.cfg.Server.Admin+" is already used by the listener "+other+", and clients must never reach admin", "give it its own port")
	default:
		d.fail(listen, other+" is the default address of admin", "choose another port, or move admin with admin: 127.0.0.1:9090")
	}
}

// adminWarnings are about who can reach the admin listener.
func adminWarnings(c *Config, warn warnFunc) {
	if _, passed := systemd.Name(c.Server.Admin); passed {
		return // its unit says who can
	}
	if !adminIsLocal(c.Server.Admin) {
		warn("admin: %s can be reached from other machines; it shows metrics, profiles and the clients that are limited, and decides about any client, so keep it behind a firewall", c.Server.Admin)
	}
	if len(c.Server.AdminTokens) == 0 || !adminIsLocal(c.Server.Admin) {
		return
	}
	const why = "%s is on this machine, where no token is needed: any process that can reach it may read and change everything; "
	if slices.ContainsFunc(c.Server.AdminTokens, func(t server.AdminToken) bool { return t.Name == "" }) {
		warn("admin.token_file: "+why+"remove it (a Unix socket keeps the other users of the machine out)", c.Server.Admin)
	} else {
		warn("admin.tokens: "+why+"the tokens only name their owners in the log", c.Server.Admin)
	}
}

// adminIsLocal reports whether only this machine reaches the admin listener.
func adminIsLocal(admin string) bool {
	host, _, err := net.SplitHostPort(admin)
	return err != nil || isLoopback(host) || strings.HasPrefix(admin, "unix:")
}

// isLoopback knows no other names than localhost: asking a name server for a warning
// would make validate slow where there is none.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
