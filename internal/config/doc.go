// Package config reads the configuration file. It checks the file as a whole and
// reports every mistake at once, with its place and what to write instead.
//
//	bytes ─► guards ─► tokens ─► guards ─► nodes ─► settings ─► Config ─► its packages
//	         size,               depth,             one by one,          check the
//	         UTF-8               number of keys     errors collected     whole
//
// # One table
//
// A [setting] is everything there is to know of one setting: the Go field that it
// fills, its type, bounds and default, and a sentence for the documents. A [section]
// is a mapping of settings. It fills one struct, where possible the Config of the
// package that uses it. The decoder, the JSON Schema ([Schema]) and the test of the
// tables in docs/configuration.md all read these tables (settings.go), so a new
// setting is a field in a package's Config and a row here.
//
// A library that decodes YAML into structs would be shorter, but stops at the first
// error, and does not say which settings were written, nor where.
//
// # Files
//
//	load.go                          file ─► bytes; the order of all stages
//	yaml.go syntax.go tree.go        bytes ─► nodes, and errors of syntax in plain words
//	settings.go section.go           the tables, and how a mapping is read by one
//	value.go list.go number.go       kinds of values that settings have in common
//	key.go network.go rule.go ban.go those that only one or two settings have
//	decoder.go errors.go suggest.go  what is wrong, where, and what was probably meant
//	check.go overlap.go machine.go   checks across settings, and against the machine
//	flags.go                         flags over a file
//	schema.go                        the tables as JSON Schema
//	describe.go warnings.go          what validate prints about a file without mistakes
//
// # What is read
//
// The subset of YAML that configuration needs: one document of block or flow
// mappings, lists and scalars, with comments. Everything that tends to surprise is
// refused by name: anchors, aliases and merge keys (expansion without bound), tags,
// directives, complex keys, duplicate keys, several documents, and values without
// quotes that YAML would turn into something else (0x10, 1_000).
//
// # Environment
//
// ${NAME} inside a scalar value is replaced after parsing, so a variable can hold
// any text without adding settings. The result is not expanded again, and keys are
// never expanded. A variable that is not set is an error; $${ is a literal ${.
//
// # Bounds
//
// The parser takes time that is quadratic in the number of keys in a mapping and
// cubic in the nesting of flow lists: 13 s for 64 KiB of "[" (go-yaml 1.19.2).
// Therefore a file has at most 1 MiB, 6000 keys (256 full rules have 3,400) and 32
// levels. The tokenizer is linear, so its tokens are counted before the parser runs
// (TestHostileSize).
//
// # Limits
//
// Only package fastlimit knows which limits are possible; the same holds for a
// store and a cluster. Once all settings are read, each package checks its Config
// and returns a FieldError for each mistake. check.go reports it at the place in the
// file that sets the field, or that the field derives from. An error that only
// follows from one already reported is left out.
package config
