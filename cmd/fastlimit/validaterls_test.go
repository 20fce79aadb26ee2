package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/internal/cli"
)

func TestValidateRLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("a.yaml", "domain: shop\ndescriptors:\n  - key: user\n    unit: day\n    rate_limit: {unit: day, requests_per_unit: 5}\n")
	command := func(env map[string]string, args ...string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		code = run(t.Context(), args, &system{stdout: &out, stderr: &errs, lookupEnv: func(name string) (string, bool) {
			value, ok := env[name]
			return value, ok
		}})
		return code, out.String(), errs.String()
	}
	const listed = "shop.user: unit=DAY requests_per_unit=5, shadow_mode: false, quota_mode: false\n"
	code, stdout, stderr := command(nil, "validate", "--rls", dir, "-v")
	if code != 0 || stderr != "" || !strings.HasSuffix(stdout, "\ndomains: 1\nlimits: 1\n"+listed) || !strings.Contains(stdout, "a.yaml:4:5: unit: has no meaning in a descriptor;") {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}

	put("b.yaml", "domain: shop\n")
	code, _, stderr = command(nil, "validate", "--rls", dir)
	if want := filepath.Join(dir, "b.yaml") + `:1:9: domain: "shop" is in another file too;`; code != cli.ExitFailure || !strings.HasPrefix(stderr, want) {
		t.Errorf("exit %d, %s: want %s", code, stderr, want)
	}
	merged := map[string]string{"MERGE_DOMAIN_CONFIG": "1"}
	if code, stdout, stderr = command(merged, "validate", "--rls", dir); code != 0 || !strings.HasSuffix(stdout, "\nlimits: 1\n") {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
	merged["MERGE_DOMAIN_CONFIG"] = "maybe"
	if code, _, stderr = command(merged, "validate", "--rls", dir); code != cli.ExitUsage || !strings.Contains(stderr, `MERGE_DOMAIN_CONFIG="maybe": want true or false`) {
		t.Errorf("exit %d, %s", code, stderr)
	}
	if code, _, stderr = command(nil, "validate", "--rls", dir, "-c", "x"); code != cli.ExitUsage {
		t.Errorf("exit %d, %s", code, stderr)
	}
	if code, stdout, _ = command(nil, "validate", "--rls", t.TempDir()); code != 0 || !strings.Contains(stdout, "no limits, so that every request is admitted") {
		t.Errorf("exit %d, %s", code, stdout)
	}
}
