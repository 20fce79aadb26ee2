package server

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
	"github.com/fastlimit/fastlimit/policy"
)

// wantField reports an error that is not about this field, in these words.
func wantField(t *testing.T, err error, field, problem string) {
	t.Helper()
	e, ok := errors.AsType[*fastlimit.FieldError](err)
	if !ok || e.Field != field || !strings.Contains(e.Problem, problem) || e.Fix == "" {
		t.Errorf("%s, %q: got %v", field, problem, err)
	}
}

// What is wrong with a listener is reported with the field and the fix.
func TestListenersAreChecked(t *testing.T) {
	t.Parallel()
	family := policy.OriginalXForwarded + 1
	for _, c := range []struct {
		field, problem string
		l              Listener
	}{
		{"Address", "", Listener{}},
		{"Address", "abstract socket", Listener{Address: "unix:@fastlimit"}},
		{"Address", "not the absolute path", Listener{Address: "unix:run/a.sock"}},
		{"Address", "not the absolute path", Listener{Address: "unix:/run/"}},
		{"Address", "zero byte", Listener{Address: "unix:/run/a\x00.sock"}},
		{"Address", "204 bytes", Listener{Address: "unix:/" + strings.Repeat("a", 203)}},
		{"Mode", "for a Unix socket", Listener{Address: ":80", Mode: 0o600}},
		{"Mode", "more than permission bits", Listener{Address: "unix:/a", Mode: fs.ModeSetuid | 0o660}},
		{"Mode", "nobody write", Listener{Address: "unix:/a", Mode: 0o444}},
		{"DenyStatus", "not the status of a denial", Listener{Address: ":80", DenyStatus: 200}},
		{"OriginalRequest", "no such header family", Listener{Address: ":80", OriginalRequest: &family}},
		{"ProxyProtocol[0]", "not a prefix", Listener{Address: ":80", ProxyProtocol: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/8")}}},
		{"HeadersOn", "unknown", Listener{Address: ":80", HeadersOn: HeadersAlways + 1}},
		{"HeadersOn", "has no effect", Listener{Address: ":80", HeadersOn: HeadersAlways, Headers: []HeaderSet{NoHeaders}}},
		{"TLS.CertFile", "", Listener{Address: ":80", TLS: &TLS{KeyFile: "key"}}},
		{"TLS.KeyFile", "", Listener{Address: ":80", TLS: &TLS{CertFile: "cert"}}},
	} {
		wantField(t, c.l.Validate(), c.field, c.problem)
	}
}

// Files of a certificate that are of no use are errors, what clients refuse is a warning.
func TestCertificatesAreChecked(t *testing.T) {
	t.Parallel()
	end := time.Now().Add(time.Hour).Truncate(time.Second)
	files := redistest.NewCertificate(t, end)
	good := TLS{CertFile: files.CertFile, KeyFile: files.KeyFile}
	for now, want := range map[time.Time]string{end.Add(-time.Minute): "", end.Add(-100 * time.Hour): "not valid before", end.Add(time.Second): "expired on"} {
		warnings, err := good.Check(os.ReadFile, now)
		if all := strings.Join(warnings, "\n"); err != nil || !strings.Contains(all, want) || (want == "") != (all == "") {
			t.Errorf("at %v: %q, %v; want %q", now, warnings, err, want)
		}
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := (&TLS{CertFile: other, KeyFile: good.KeyFile}).Check(os.ReadFile, end)
	wantField(t, err, "CertFile", other)
	_, err = (&TLS{CertFile: good.CertFile, KeyFile: other}).Check(os.ReadFile, end)
	wantField(t, err, "KeyFile", other)
}
