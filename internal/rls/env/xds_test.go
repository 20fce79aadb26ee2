package env

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/rls/xds"
)

// TestXDS has upstream's defaults and variables.
func TestXDS(t *testing.T) {
	t.Parallel()
	vars := map[string]string{"REDIS_URL": "none", "CONFIG_TYPE": "GRPC_XDS_SOTW", "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES": "0"}
	s, _, err := readFrom(vars)
	want := &xds.Config{
		Server: "localhost:18000", Node: "default", Connect: 3 * time.Second, RetryMin: 10 * time.Second, RetryMax: time.Minute, MaxMessage: maxMessage,
	}
	if err != nil || !reflect.DeepEqual(s.XDS, want) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, s.XDS, want)
	}
	maps.Copy(vars, map[string]string{
		"CONFIG_GRPC_XDS_SERVER_URL": "eg:18001", "CONFIG_GRPC_XDS_NODE_ID": "n", "CONFIG_GRPC_XDS_NODE_METADATA": "a=b,c=d=e",
		"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": "h:v", "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL": "1s", "MERGE_DOMAIN_CONFIG": "true",
		"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL": "2s", "XDS_CLIENT_BACKOFF_MAX_INTERVAL": "4s", "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES": "99",
		"CONFIG_GRPC_XDS_SERVER_USE_TLS": "true", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT": "c", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY": "k",
		"CONFIG_GRPC_XDS_SERVER_TLS_CACERT": "ca", "CONFIG_GRPC_XDS_SERVER_TLS_SAN": "san",
	})
	want = &xds.Config{
		Server: "eg:18001", Node: "n", Metadata: map[string]string{"a": "b", "c": "d=e"}, Headers: map[string]string{"h": "v"}, Merge: true,
		TLS: &xds.TLS{CAFile: "ca", CertFile: "c", KeyFile: "k", ServerName: "san"}, Connect: time.Second, RetryMin: 2 * time.Second, RetryMax: 4 * time.Second, MaxMessage: 99,
	}
	if s, _, err = readFrom(vars); err != nil || !reflect.DeepEqual(s.XDS, want) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, s.XDS, want)
	}
	delete(vars, "CONFIG_GRPC_XDS_CLIENT_TLS_KEY")
	vars["CONFIG_GRPC_XDS_NODE_METADATA"] = "a"
	if _, _, err = readFrom(vars); err == nil || !strings.Contains(err.Error(), "CONFIG_GRPC_XDS_CLIENT_TLS_CERT: want") || !strings.Contains(err.Error(), `CONFIG_GRPC_XDS_NODE_METADATA="a": want key=value`) {
		t.Errorf("%v", err)
	}
}
