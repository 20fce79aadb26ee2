// Package config reads the configuration file: YAML, checked as a whole, every
// mistake reported at once with its place and what to write instead.
//
//	bytes ─► guards ─► tokens ─► guards ─► nodes ─► settings ─► Config ─► its packages
//	         size,               depth,             one by one,          what is wrong with
//	         UTF-8               number of keys     errors collected     the whole
//
// # One table
//
// A [setting] is all there is to know of a name in the file: the Go field that
// it fills, type and bounds, default, and a sentence for people. A [section] is
// a mapping of them and fills one struct, where possible the Config of the
// package that it is for. The decoder, the JSON Schema ([Schema]) and the test of
// the tables in docs/configuration.md read these tables (settings.go), so that a
// new setting is a field of a package's Config and a row here.
//
// The nodes are walked by these tables instead of being decoded into structs by
// a library, since a decoder stops at its first error, and knows neither which
// settings were written nor where.
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
// What a limit may be is known to package fastlimit alone, as a store and a
// cluster are to theirs. Once all settings are read, each package checks its
// Config and returns a FieldError for each mistake: check.go puts it
// at the place in the file that set the field, or that the field derives from.
// What follows from a mistake that is reported already is not reported again.
package config
