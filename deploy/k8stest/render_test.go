package k8stest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	yamltext "sigs.k8s.io/yaml"
)

var (
	chartFolder     = filepath.Join("..", "helm", "fastlimit")
	kustomizeFolder = filepath.Join("..", "kustomize")
)

// renderChart renders the chart as helm install does with a file of values.
func renderChart(values string) (manifests map[string]string, err error) {
	chart, err := loader.Load(chartFolder)
	if err != nil {
		return nil, err
	}
	if err := chart.Validate(); err != nil {
		return nil, err
	}
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		return nil, err
	}
	release := chartutil.ReleaseOptions{Name: "edge", Namespace: "limits", IsInstall: true, Revision: 1}
	all, err := chartutil.ToRenderValues(chart, given, release, nil) // it checks the schema
	if err != nil {
		return nil, err
	}
	return engine.Engine{Strict: true}.Render(chart, all)
}

func helm(t *testing.T, values string) objects {
	t.Helper()
	manifests, err := renderChart(values)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for name, manifest := range manifests {
		if path.Ext(name) == ".yaml" {
			fmt.Fprintf(&text, "---\n%s\n", manifest)
		}
	}
	return decode(t, text.String())
}

// Kustomize's schema of the API is a global variable.
var oneAtATime sync.Mutex

func kustomize(t *testing.T, folder string) objects {
	t.Helper()
	oneAtATime.Lock()
	defer oneAtATime.Unlock()
	found, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(kustomizeFolder, folder))
	if err != nil {
		t.Fatal(err)
	}
	text, err := found.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, string(text))
}

// decode reads every object into the type of its kind. An unknown or repeated field is an error.
func decode(t *testing.T, text string) (all objects) {
	t.Helper()
	for r := yaml.NewYAMLReader(newReader(text)); ; {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		var head struct{ APIVersion, Kind string }
		must(t, yamltext.Unmarshal(doc, &head))
		if head.Kind == "" && len(bytes.TrimSpace(doc)) == 0 || string(bytes.TrimSpace(doc)) == "---" {
			continue
		}
		o, known := newObject(head.APIVersion, head.Kind)
		if !known {
			t.Fatalf("there should be no %s %s:\n%s", head.APIVersion, head.Kind, doc)
		}
		if err := yamltext.UnmarshalStrict(doc, o); err != nil {
			t.Fatalf("%s %s: %v\n%s", head.Kind, o.GetName(), err, doc)
		}
		all = append(all, o)
	}
	if len(all) == 0 {
		t.Fatal("nothing was rendered")
	}
	return all
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
