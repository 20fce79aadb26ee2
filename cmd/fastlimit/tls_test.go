package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// output runs a command of the system to its end.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, _ := exec.CommandContext(t.Context(), name, args...).CombinedOutput() // what it prints tells
	return string(out)
}

func tlsFile(c redistest.Certificate) string {
	return fmt.Sprintf("listen: [{address: \"127.0.0.1:0\", tls: {cert_file: %s, key_file: %s}}]\nadmin: 127.0.0.1:0\n%s", c.CertFile, c.KeyFile, perIP)
}

// curl and OpenSSL get decisions over TLS 1.2 and 1.3, HTTP/2 where they offer it,
// and a clean end where they insist on something else.
func TestTLSListener(t *testing.T) {
	t.Parallel()
	c := redistest.NewCertificate(t, time.Now().Add(time.Hour))
	p := serveFile(t, tlsFile(c))
	url := "https://" + p.listen + "/"
	for i, args := range [][]string{{"--tlsv1.2", "--tls-max", "1.2"}, {"--tlsv1.3", "--http2"}, {"--http1.0"}} {
		want := []string{"200 2", "200 2", "429 1.1"}[i]
		if got := output(t, "curl", append(args, "-sS", "--cacert", c.CertFile, "-o", "/dev/null", "-w", "%{http_code} %{http_version}", url)...); got != want {
			t.Errorf("curl %v: %s, want %s", args, got, want)
		}
	}
	if got := output(t, "curl", "-sS", "http://"+p.listen+"/"); !strings.Contains(got, "This port speaks HTTPS") {
		t.Errorf("plain HTTP: %s", got)
	}
	for args, want := range map[string]string{
		"-alpn h3": "no application protocol", "-tls1_1 -cipher DEFAULT@SECLEVEL=0": "protocol version", "-alpn h2,http/1.1": "ALPN protocol: h2", "-tls1_2": "Secure Renegotiation IS supported",
	} {
		if got := output(t, "openssl", append([]string{"s_client", "-connect", p.listen, "-CAfile", c.CertFile}, strings.Fields(args)...)...); !strings.Contains(got, want) {
			t.Errorf("openssl s_client %s: no %q\n%s", args, want, got)
		}
	}
	for class, want := range map[string]float64{"not_tls": 1, "alpn": 1, "version": 1, "refused": 0, "protocol": 0, "timeout": 0} {
		if n := p.metric(t, `fastlimit_tls_handshake_errors_total{class="`+class+`"}`); n != want {
			t.Errorf("%v of class %s, want %v", n, class, want)
		}
	}
	if n := p.metric(t, `fastlimit_tls_certificate_expiry_timestamp_seconds{address="127.0.0.1:0"}`); n < float64(time.Now().Unix()) {
		t.Errorf("it expires at %v", n)
	}
	if got := output(t, "curl", "-sS", "http://"+p.admin+"/v1/info"); !strings.Contains(got, `"cert_file": "`+c.CertFile) || !strings.Contains(got, `"not_after": "`) {
		t.Errorf("/v1/info: %s", got)
	}
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// New files are served without a restart, in whatever order they come; a certificate
// without its key changes nothing, is logged once, and again on SIGHUP.
func TestCertificateIsReplaced(t *testing.T) {
	t.Parallel()
	c, next := redistest.NewCertificate(t, time.Now().Add(time.Hour)), redistest.NewCertificate(t, time.Now().Add(2*time.Hour))
	p := serveFile(t, tlsFile(c))
	trusted := func(cert string) bool {
		return strings.HasPrefix(output(t, "curl", "-sS", "--cacert", cert, "-o", "/dev/null", "-w", "%{http_code}", "https://"+p.listen+"/"), "200") ||
			strings.HasPrefix(output(t, "curl", "-sS", "--cacert", cert, "-o", "/dev/null", "-w", "%{http_code}", "https://"+p.listen+"/"), "429")
	}
	old := writeFile(t, "old.pem", readText(t, c.CertFile))
	replace := func(from, to string) {
		if err := os.Rename(writeFile(t, "new.pem", readText(t, from)), to); err != nil {
			t.Fatal(err)
		}
	}
	replace(next.CertFile, c.CertFile)
	p.waitLog("the certificate was not replaced")
	if !trusted(old) {
		t.Error("the old certificate is not served beside a new one without its key")
	}
	p.signal(syscall.SIGHUP)
	p.waitLog("the certificate was not replaced")
	p.waitLog("reload: nothing was changed") // it reads the files once more
	replace(next.KeyFile, c.KeyFile)
	p.waitLog("the certificate was replaced")
	if trusted(old) || !trusted(next.CertFile) {
		t.Error("the new certificate is not served")
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Mistakes have their place, in validate and in serve, and nothing starts; what only may
// be one is a warning.
func TestTLSMistakes(t *testing.T) {
	t.Parallel()
	good, other := redistest.NewCertificate(t, time.Now().Add(time.Hour)), redistest.NewCertificate(t, time.Now().Add(time.Hour))
	for _, c := range []struct {
		files redistest.Certificate
		want  string
	}{
		{redistest.Certificate{CertFile: good.CertFile, KeyFile: other.KeyFile}, `listen[0].tls.key_file: "` + other.KeyFile + `" does not fit the certificate`},
		{redistest.Certificate{CertFile: good.KeyFile, KeyFile: good.KeyFile}, `listen[0].tls.cert_file: "` + good.KeyFile + `" contains no certificate`},
		{redistest.Certificate{CertFile: "/none.pem", KeyFile: good.KeyFile}, `listen[0].tls.cert_file: "/none.pem" no such file`},
		{redistest.Certificate{CertFile: good.CertFile, KeyFile: writeFile(t, "k", "x")}, `contains no key in PEM; name the file with the key of this certificate`},
	} {
		file := writeFile(t, "c.yaml", tlsFile(c.files))
		for _, cmd := range []string{"validate", "serve"} {
			code, _, errs := command(t, nil, cmd, "-c", file)
			if code != 1 || !strings.Contains(errs, c.want) || !strings.Contains(errs, file+":1:") || strings.Contains(errs, "is serving") {
				t.Errorf("%s: code %d, want %s\n%s", cmd, code, c.want, errs)
			}
		}
	}
	expired := redistest.NewCertificate(t, time.Now().Add(-time.Hour))
	if err := os.Chmod(expired.KeyFile, 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errs := command(t, nil, "validate", "-c", writeFile(t, "c.yaml", tlsFile(expired)))
	for _, want := range []string{"warning: tls: the certificate in " + expired.CertFile + " expired on", "warning: tls: every user of this machine can read the key in " + expired.KeyFile + ", which has mode 0644"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("code %d, want %s\n%s%s", code, want, out, errs)
		}
	}
}
