package certs

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// copyFile puts the content of one file into another at once, as renaming does.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(to+".new", to); err != nil {
		t.Fatal(err)
	}
}

// Steps of a rotation: what is served, and what is logged. The certificate of one pair is
// never served with the key of another, whichever comes first.
func TestRotation(t *testing.T) {
	t.Parallel()
	now := time.Now()
	old, next := redistest.NewCertificate(t, now.Add(time.Hour)), redistest.NewCertificate(t, now.Add(2*time.Hour))
	const failed, replaced, expired = "was not replaced", "was replaced", "has expired"
	for name, steps := range map[string][]struct {
		do     string // c: a new certificate, k: its key, x: no certificate, -: nothing, h: hangup, l: two hours later
		served bool   // the new one
		logs   string // what one line is about; empty: nothing
	}{
		"both":                 {{"ck", true, replaced}, {"-", true, ""}},
		"certificate first":    {{"c", false, ""}, {"k", true, replaced}},
		"key first":            {{"k", false, ""}, {"c", true, replaced}},
		"certificate alone":    {{"c", false, ""}, {"-", false, failed}, {"-", false, ""}, {"-", false, ""}, {"h", false, failed}, {"k", true, replaced}},
		"no file":              {{"x", false, ""}, {"-", false, failed}, {"-", false, ""}, {"ck", true, replaced}},
		"nothing":              {{"-", false, ""}, {"h", false, ""}},
		"expires":              {{"l", false, expired}, {"-", false, ""}, {"ck", true, replaced}},
		"hangup reads at once": {{"ckh", true, replaced}},
	} {
		files := redistest.NewCertificate(t, now)
		copyFile(t, old.CertFile, files.CertFile)
		copyFile(t, old.KeyFile, files.KeyFile)
		var log bytes.Buffer
		s, err := Open(files.CertFile, files.KeyFile, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		for i, step := range steps {
			at := now
			for _, what := range step.do {
				switch what {
				case 'c':
					copyFile(t, next.CertFile, files.CertFile)
				case 'k':
					copyFile(t, next.KeyFile, files.KeyFile)
				case 'x':
					os.Remove(files.CertFile)
				case 'l':
					at = now.Add(90 * time.Minute)
				}
			}
			log.Reset()
			s.Look(strings.Contains(step.do, "h"), at)
			pair, _ := s.Get(nil)
			if got := pair.Leaf.NotAfter.After(now.Add(90 * time.Minute)); got != step.served {
				t.Errorf("%s, step %d: the new one is served: %v", name, i, got)
			}
			if _, err := tls.X509KeyPair(pemOf(pair.Certificate[0]), keyOf(t, pair.PrivateKey)); err != nil {
				t.Errorf("%s, step %d: what is served is no pair: %v", name, i, err)
			}
			lines := strings.Count(log.String(), "\n")
			if step.logs == "" && lines != 0 || step.logs != "" && (lines != 1 || !strings.Contains(log.String(), step.logs)) {
				t.Errorf("%s, step %d: want %q\n%s", name, i, step.logs, &log)
			}
		}
	}
}

func pemOf(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func keyOf(t *testing.T, key crypto.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
