package config

import (
	"fmt"
	"time"

	"github.com/fastlimit/fastlimit/server"
)

// tlsSettings fills server.TLS.
var tlsSettings = section{
	name: "tls", want: "settings, such as {cert_file: cert.pem, key_file: key.pem}", where: "in tls, indented more than tls",
	settings: []setting{
		{name: "cert_file", field: "CertFile", value: text("path", "the path of a file"), required: "name a file with the certificate in PEM", doc: "the certificate in PEM, followed by its intermediate certificates"},
		{name: "key_file", field: "KeyFile", value: text("path", "the path of a file"), required: "name a file with the key in PEM", doc: "the certificate's key in PEM, without a passphrase"},
		{name: "http2", field: "NoHTTP2", value: unless(), def: "true", doc: "offer HTTP/2 too"},
	},
}

// checkTLS has package server read a certificate, and looks who else can read the key.
func (d *decoder) checkTLS(path string, t *server.TLS) {
	if t == nil || d.machine.readFile == nil {
		return
	}
	warnings, err := t.Check(d.machine.readFile, time.Now())
	d.report(join(path, "TLS"), err)
	d.cfg.fileWarnings = append(d.cfg.fileWarnings, warnings...)
	if mode := d.machine.mode(t.KeyFile); mode&0o004 != 0 {
		d.cfg.fileWarnings = append(d.cfg.fileWarnings, fmt.Sprintf("tls: every user of this machine can read the key in %s, which has mode %04o; chmod 600 it", t.KeyFile, mode.Perm()))
	}
}
