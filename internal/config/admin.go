package config

import (
	"reflect"
	"strings"
)

// adminListener is the address of the admin listener, or a mapping with a token beside it.
func adminListener() value {
	one, more := socketAddress(), mapping(&adminSettings)
	v := value{docs: "address, or mapping", section: &adminSettings, read: func(d *decoder, n *node, to reflect.Value) bool {
		if n.kind != isMapping {
			return one.read(d, n, to)
		}
		var admin struct{ Address, Token string }
		ok := more.read(d, n, reflect.ValueOf(&admin).Elem())
		d.cfg.Server.AdminToken = admin.Token
		to.SetString(admin.Address)
		return ok
	}}
	v.schema = schema{"anyOf": []schema{one.schema, more.schema}}
	return v
}

const leastToken = 16

// tokenFile is a file with a token that HTTP can carry and nobody guesses.
func tokenFile() value {
	content := fileContent()
	return valueOf("path", textSchema(), func(d *decoder, n *node) (token string, ok bool) {
		if !content.read(d, n, reflect.ValueOf(&token).Elem()) {
			return "", false
		}
		if len(token) < leastToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			d.fail(n, "the file holds no token", "write at least 16 printable characters without spaces: openssl rand -hex 32 makes one")
			return "", false
		}
		return token, true
	})
}
