// Package http2spec tests with h2spec how well a listener with TLS follows RFC 9113 and RFC 7541. It is a
// module of its own so that nobody else needs h2spec's dependencies.
package http2spec
