package env

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/internal/rls/xds"
)

// maxMessage is the largest response of a control plane: 100,000 limits take 10 MB.
const maxMessage = 64 << 20

// xds reads which control plane sends the limits; nil if files have them.
func (r *reader) xds() *xds.Config {
	switch text := r.text("CONFIG_TYPE", "FILE"); text {
	case "FILE":
		return nil
	case "GRPC_XDS_SOTW":
	default:
		r.fail("CONFIG_TYPE", text, "FILE or GRPC_XDS_SOTW")
		return nil
	}
	c := &xds.Config{
		Server:     r.text("CONFIG_GRPC_XDS_SERVER_URL", "localhost:18000"),
		Node:       r.text("CONFIG_GRPC_XDS_NODE_ID", "default"),
		Metadata:   r.pairs("CONFIG_GRPC_XDS_NODE_METADATA", "="),
		Headers:    r.pairs("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", ":"),
		Connect:    r.duration("CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", 3*time.Second),
		RetryMin:   r.duration("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", 10*time.Second),
		RetryMax:   r.duration("XDS_CLIENT_BACKOFF_MAX_INTERVAL", time.Minute),
		MaxMessage: cmp.Or(r.number("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", 0, 0, 1<<30), maxMessage), // 0 is upstream's default
		Merge:      r.bool("MERGE_DOMAIN_CONFIG"),
	}
	if r.bool("CONFIG_GRPC_XDS_SERVER_USE_TLS") {
		c.TLS = &xds.TLS{
			CAFile: r.text("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", ""), ServerName: r.text("CONFIG_GRPC_XDS_SERVER_TLS_SAN", ""),
			CertFile: r.text("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", ""), KeyFile: r.text("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", ""),
		}
		if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
			r.errs = append(r.errs, errors.New("CONFIG_GRPC_XDS_CLIENT_TLS_CERT: want CONFIG_GRPC_XDS_CLIENT_TLS_KEY too, or neither"))
		}
	}
	return c
}

// pairs reads key and value pairs, apart by commas.
func (r *reader) pairs(name, between string) map[string]string {
	text, set := r.get(name)
	if !set {
		return nil
	}
	all := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(pair, between)
		if !found || key == "" {
			r.fail(name, text, "key"+between+"value,key"+between+"value")
			return nil
		}
		all[key] = value
	}
	return all
}
