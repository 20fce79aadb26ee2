// Package config reads the configuration file: YAML, checked as a whole, every
// mistake reported at once with its place and what to write instead.
//
//	bytes ─► guards ─► tokens ─► guards ─► syntax tree ─► decoder ─► Config
//	         size,               depth,                   setting by setting,
//	         UTF-8               number of keys           errors collected
//
// The tree is walked by hand instead of being decoded into structs, since a
// decoder stops at its first error, and knows neither which settings were
// written nor where.
//
// # What is read
//
// The subset of YAML that configuration needs: one document of block or flow
// mappings, lists and scalars, comments included. Refused by name, as each has
// surprised somebody: anchors, aliases and merge keys (expansion without
// bound), tags, directives, complex keys, duplicate keys, several documents,
// and values without quotes that change their type (0x10, 1_000).
//
// # Environment
//
// ${NAME} inside a scalar value is replaced after parsing, so that a variable
// may hold anything and still be nothing but that value. It is never expanded
// twice, nor in keys. An unknown variable is an error; $${ is a literal ${.
//
// # Bounds
//
// The parser takes time that is quadratic in the keys of a mapping and cubic
// in the nesting of flow lists: 13 s for 64 KiB of "[" (go-yaml 1.19.2). So a
// file is at most 1 MiB, has at most 6000 keys (256 full rules have 3,400) and
// nests at most 32 levels; the linear tokenizer tells before the parser runs.
//
// # Limits
//
// What a limit may be is known to package fastlimit alone. Each setting is
// added to a rule that is known to be good and the rule is planned: an error
// then belongs to that setting, and to its place in the file.
package config
