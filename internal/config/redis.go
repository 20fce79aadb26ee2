package config

import "strings"

// checkRedis reports mistakes that only the file shows: the store cannot tell a
// setting that is written from its zero value. [redisstore.Config.Validate] reports
// all others.
func checkRedis(d *decoder, n *node) {
	at := func(field string) *node { return d.places[join(n.field, field)] }
	r := d.cfg.Redis
	if db := at("DB"); db != nil && !db.failed && at("Addrs") == nil {
		d.fail(db, "is for addresses", "write it into the URL: redis://host:6379/"+db.text)
	}
	off := at("TLS")
	if off == nil || off.failed || r.TLS {
		return
	}
	switch {
	case at("CAFile") != nil || at("CertFile") != nil:
		d.fail(off, "false beside ca_file or cert_file, which turn it on", "remove one of them")
	case strings.HasPrefix(r.URL, "rediss:"):
		d.fail(off, "false beside a URL of rediss://, which turns it on", "write redis://, or remove tls")
	}
}
