package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/limit"
)

func TestTopTalkers(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "top_talkers: 64\nrules: [{name: a, rate: 10/s}]")
	if l := c.Limiter(); l.TopTalkers != 64 || l.Nodes != 0 || plan(t, c).Rules[0].TopTalkers != 64 {
		t.Errorf("%+v", l)
	}
	c = mustParse(t, withCluster(leanCluster+", max_nodes: 3, top_talkers: 32"))
	if l := c.Limiter(); l.TopTalkers != 32 || l.Nodes != 3 {
		t.Errorf("%+v", l)
	}
	if l := mustParse(t, "rules: [{name: a, rate: 10/s}]").Limiter(); l.TopTalkers != defaultTopTalkers || l.Nodes != 0 {
		t.Errorf("%+v", l)
	}
	for text, want := range map[string]string{
		"top_talkers: 2\nrules: [{name: a, rate: 10/s}]":                    "f.yaml:1:14: top_talkers: 2 is out of range; want 4 to 1048576, or 0 for none",
		"top_talkers: 64\n" + withCluster(leanCluster):                      "f.yaml:1:14: top_talkers: is for nodes without a cluster; write it in cluster",
		"top_talkers: 100000\nmemory: 1MiB\nrules: [{name: a, rate: 10/s}]": "f.yaml:1:14: top_talkers: 100000 clients of each rule do not fit memory 1MiB; lower them, or raise memory to 12353KiB or more",
		"memory: 1MiB\n" + withCluster(leanCluster):                         "f.yaml:2:10: cluster: 8192 clients of each rule do not fit memory 1MiB; lower them, or raise memory to 1952KiB or more",
	} {
		if _, err := Parse("f.yaml", []byte(text), noEnv); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// The default never keeps a file from being accepted, and takes no more than a
// sixteenth of memory.
func TestDefaultTopTalkers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		memory int64
		rules  int
		want   int
	}{
		{64 << 20, 1, 1024},
		{64 << 20, 42, 860},
		{64 << 20, 100, 360},
		{64 << 20, limit.MaxRules, 0}, // all of it is for the limits
		{1 << 20, 1, 0},
		{1<<20 + 100<<10, 1, 620},
		{2 << 20, 1, 1024},
	} {
		if got := defaultTalkers(tt.memory, tt.rules); got != tt.want {
			t.Errorf("memory %d, %d rules: %d, want %d", tt.memory, tt.rules, got, tt.want)
		}
		c := fastlimit.Config{Rules: probes(tt.rules), TopTalkers: tt.want, Memory: tt.memory}
		if _, err := fastlimit.NewPlan(c); err != nil {
			t.Error(err)
		}
	}
	if c := mustParse(t, "top_talkers: 0\n"+rule); c.Limiter().TopTalkers != 0 {
		t.Error("0 does not turn it off")
	}
	if c := mustParse(t, "memory: 1MiB\n"+rule); c.Limiter().TopTalkers != 0 {
		t.Errorf("%d in the least memory", c.Limiter().TopTalkers)
	}
	_, err := Parse("f.yaml", []byte("heavy_hitters: 5\ncluster: {heavy_hitters: 5}\n"), noEnv)
	for _, want := range []string{"f.yaml:1:1: heavy_hitters: is now called top_talkers; write top_talkers", "f.yaml:2:11: cluster.heavy_hitters: is now called top_talkers"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
}

// probes are good rules.
func probes(n int) []fastlimit.RuleConfig {
	all := make([]fastlimit.RuleConfig, n)
	for i := range all {
		all[i] = fastlimit.RuleConfig{Name: fmt.Sprint(i), Rate: fastlimit.Rate{N: 1, Per: time.Second}}
	}
	return all
}
