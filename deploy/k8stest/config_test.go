package k8stest

import (
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// configOf is fastlimit.yaml of the ConfigMap.
func configOf(t *testing.T, all objects) (config map[string]any) {
	t.Helper()
	must(t, yaml.UnmarshalStrict([]byte(only[*core.ConfigMap](t, all).Data["fastlimit.yaml"]), &config))
	return config
}

// contents are the values of Secrets by the name of their file, and of what else is mounted.
var contents = map[string]string{
	"secret": "4Dx2yzEkKVvl9fYvmZ9GJw", "cluster": "4Dx2yzEkKVvl9fYvmZ9GJw",
	"url": "redis://127.0.0.1:1/0", "redis-url": "redis://127.0.0.1:1/0", "password": "", "deny.txt": "192.0.2.0/24\n",
	"read": "a-token-that-only-reads", "act": "a-token-that-changes",
}

// files are those of a volume, by name.
func files(t *testing.T, all objects, name string) map[string]string {
	t.Helper()
	v, found := volume(t, all, name), map[string]string{}
	var items []core.KeyToPath
	switch {
	case v.Secret != nil:
		items = v.Secret.Items
		if mode := v.Secret.DefaultMode; mode == nil || *mode != 0o440 {
			t.Errorf("volume %s: others may read the Secret", name)
		}
	case v.ConfigMap.Name == only[*core.ConfigMap](t, all).Name:
		return only[*core.ConfigMap](t, all).Data
	default:
		items = v.ConfigMap.Items
	}
	for _, item := range items {
		content, known := contents[item.Path]
		if !known || item.Key == "" {
			t.Errorf("volume %s: nothing known of %q", name, item.Path)
		}
		found[item.Path] = content
	}
	return found
}

// pathsIn are the absolute paths in a value.
func pathsIn(value any) (found []string) {
	switch value := value.(type) {
	case map[string]any:
		for _, v := range value {
			found = append(found, pathsIn(v)...)
		}
	case []any:
		for _, v := range value {
			found = append(found, pathsIn(v)...)
		}
	case string:
		if strings.HasPrefix(value, "/") {
			found = []string{value}
		}
	}
	return found
}

func toAny(texts []string) (all []any) {
	for _, text := range texts {
		all = append(all, text)
	}
	return all
}

func count(all []string, names ...string) (n int) {
	for _, name := range names {
		if slices.Contains(all, name) {
			n++
		}
	}
	return n
}
