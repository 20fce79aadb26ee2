package config

import (
	"fmt"

	"github.com/fastlimit/fastlimit/internal/field"
)

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
	}
}
