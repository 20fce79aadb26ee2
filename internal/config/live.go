package config

import (
	"reflect"
	"strings"

	"github.com/fastlimit/fastlimit/internal/mistake"
)

// place is where the file has a setting.
type place struct {
	line, column int
	setting      string
}

// NotLive are errors for settings of c, the paths of whose fields are given, that only a
// restart can change.
func (c *Config) NotLive(fields []string) (all mistake.Errors) {
	for _, field := range fields {
		at, ok := place{}, false
		for path := field; !ok && path != ""; path = path[:max(0, strings.LastIndexAny(path, ".["))] {
			at, ok = c.places[path]
		}
		e := &mistake.Error{File: c.File, Line: at.line, Column: at.column, Setting: at.setting, Problem: "cannot change while the node runs", Fix: "restart it, or take the change back: nothing was changed"}
		if !ok {
			e.Setting = settingOf(field) // the file does not have it any more
		}
		all = append(all, e)
	}
	inOrder(all, c.File)
	return all
}

// Frozen returns the paths of fields in which c differs from was and which only a restart changes. Those of a
// server are not among them: server.Reload refuses them itself.
func (c *Config) Frozen(was *Config) (fields []string) {
	for _, f := range []struct {
		path    string
		was, is any
	}{
		{"Limits.Memory", was.Limits.Memory, c.Limits.Memory},
		{"StateFile", was.StateFile, c.StateFile},
		{"Redis", withoutLogin(was.Redis), withoutLogin(c.Redis)},
		{"Postgres", withoutLogin(was.Postgres), withoutLogin(c.Postgres)},
		{"Cluster", was.Cluster, c.Cluster},
		{"Kernel", was.Kernel, c.Kernel},
	} {
		if !reflect.DeepEqual(f.was, f.is) {
			fields = append(fields, f.path)
		}
	}
	return fields
}

// withoutLogin is what has to stay of the settings of a store, if there are any.
func withoutLogin[T interface{ WithoutLogin() T }](c *T) (kept *T) {
	if c != nil {
		without := (*c).WithoutLogin()
		kept = &without
	}
	return kept
}

// settingOf is the setting of a field at the top level or one below.
func settingOf(field string) string {
	for i := range topSettings.settings {
		s := &topSettings.settings[i]
		if s.field == field || strings.HasPrefix(field, s.field+".") {
			return s.name
		}
	}
	return field
}
