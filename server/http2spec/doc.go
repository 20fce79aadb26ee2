// Package http2spec tests how a listener with TLS keeps to RFC 9113 and RFC 7541, by
// h2spec, which is a module of its own so that nobody else needs what it does.
package http2spec
