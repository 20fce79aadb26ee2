package k8stest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var block = regexp.MustCompile("(?ms)^```yml\n(.*?)^```$")

// The values in docs/kubernetes.md are values of the chart.
func TestDocumentedValues(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "kubernetes.md"))
	must(t, err)
	blocks := block.FindAllStringSubmatch(string(page), -1)
	for _, b := range blocks {
		all := helm(t, b[1])
		for _, v := range all.pod(t).Spec.Volumes {
			files(t, all, v.Name)
		}
	}
	if len(blocks) < 4 {
		t.Errorf("only %d blocks", len(blocks))
	}
}

// What helm says after an installation warns of what is probably wrong, and of nothing else.
func TestNotes(t *testing.T) {
	t.Parallel()
	for values, warns := range map[string]int{
		"":                               2,
		"replicas: 1":                    1,
		"redis: {secretName: a}":         1,
		"config: {trusted_proxies: [x]}": 1,
		everything:                       0,
	} {
		manifests, err := renderChart(values)
		must(t, err)
		notes := manifests["fastlimit/templates/NOTES.txt"]
		said := strings.Count(notes, "trusted_proxies is empty") + strings.Count(notes, "There is no store")
		if said != warns || strings.Contains(notes, "\n\n\n") || !strings.HasPrefix(notes, "Traffic: http://") {
			t.Errorf("%s: %d warnings in\n%s", values, said, notes)
		}
	}
}
