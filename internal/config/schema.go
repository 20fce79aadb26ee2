package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"

	"github.com/goccy/go-yaml"
)

// schema is a JSON Schema, draft 2020-12. It is a map, so that encoding/json sorts its
// keys and the generated file changes only where a setting does.
type schema map[string]any

func textSchema() schema { return schema{"type": "string", "minLength": 1} }

// patternSchema is text of a form, or of one with a variable, which may hold
// anything.
func patternSchema(pattern string) schema {
	return schema{"type": "string", "pattern": pattern + `|\$\{`}
}

// orVariable is a value that is no text, or a variable that holds one. Every value may
// be a variable, so a schema without it would mark files that load.
func orVariable(s schema) schema {
	return schema{"anyOf": []schema{s, {"$ref": "#/$defs/variable"}}}
}

// Schema is the JSON Schema of the file, for editors: what [Parse] refuses
// because of its shape, the schema refuses too. It ends with a newline.
func Schema() []byte {
	defs := schema{"variable": schema{"type": "string", "pattern": `\$\{`, "description": "an environment variable, as ${NAME}"}}
	for _, s := range sections {
		if s != &topSettings {
			defs[s.name] = s.schema()
		}
	}
	top := topSettings.schema()
	top["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	top["$id"] = "https://github.com/fastlimit/fastlimit/docs/fastlimit.schema.json"
	top["title"] = "fastlimit"
	top["$defs"] = defs
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(top); err != nil {
		panic("BUG: config: the schema is no JSON: " + err.Error())
	}
	return b.Bytes()
}

// schema describes a section's mapping. Unknown settings are refused, so that editors
// mark a misspelled one. "Exactly one of these" is a oneOf with a branch for each.
func (s *section) schema() schema {
	properties, required, oneOf := schema{}, []string{}, s.oneOf
	for _, f := range s.settings {
		p := schema{"description": strings.ReplaceAll(f.doc, "`", "")}
		maps.Copy(p, f.value.schema)
		if f.def != "" {
			var def any
			if err := yaml.Unmarshal([]byte(f.def), &def); err != nil {
				panic("BUG: config: default of " + f.name + ": " + err.Error())
			}
			p["default"] = def
		}
		properties[f.name] = p
		if f.required == "" {
			continue
		}
		if same := s.filling(f.field); len(same) > 1 {
			oneOf = same
		} else {
			required = append(required, f.name)
		}
	}
	out := schema{"type": "object", "additionalProperties": false, "properties": properties}
	if len(oneOf) > 0 {
		var one []schema
		for _, name := range oneOf {
			one = append(one, schema{"required": []string{name}})
		}
		out["oneOf"] = one
	}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// filling are the settings that fill a field, such as secret and secret_file.
func (s *section) filling(field string) (all []string) {
	for _, f := range s.settings {
		if f.field == field {
			all = append(all, f.name)
		}
	}
	return all
}
