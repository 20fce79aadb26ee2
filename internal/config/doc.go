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
// tables in docs/configuration.md all read these tables, so a new
// setting is a field in a package's Config and a row in one of them.
//
// A library that decodes YAML into structs would be shorter, but stops at the first
// error, and does not say which settings were written, nor where.
//
// # Files
//
// One file holds a section: the table of its settings, the types of values that only it has,
// its checks, its warnings and its description. A section that stands in one other only, such
// as denial in listen, may be in the file of that one. Settings without a section that need
// more than a row in a table, such as memory or key, have a file too.
//
//	top.go                                   the table of the top level
//	listen.go tls.go admin.go proxies.go     who connects, and who is believed
//	upstream.go connections.go drain.go      what the server does with connections
//	memory.go talkers.go wait.go             what the limiter has for all rules
//	accesslog.go showkeys.go statefile.go    what is written, and what of it is shown
//	redis.go postgres.go store.go cluster.go what nodes share; one of the two stores at most
//	listfile.go kernel.go                    allow and deny, and bans in the kernel
//	rule.go ruleplan.go                      a rule, and what the plan of the limiter says of it
//	key.go match.go cost.go                  which requests count, for whom and how much
//	override.go legacy.go ban.go             other limits, other notations, and bans
//
// The others are the machinery that all sections share:
//
//	load.go machine.go               file ─► bytes; the order of all stages
//	yaml.go syntax.go tree.go env.go bytes ─► nodes, and errors of syntax in plain words
//	config.go                        what all of them fill
//	section.go                       how a mapping is read by a table; the list of all tables
//	value.go list.go number.go       kinds of values that sections have in common
//	address.go overlap.go            addresses, and ports that are taken twice
//	decoder.go errors.go suggest.go  what is wrong, where, and what was probably meant
//	check.go warnings.go describe.go in which order sections are checked and described
//	flags.go flagvalue.go live.go    flags over a file, and another file while a node runs
//	schema.go                        the tables as JSON Schema
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
// and returns a FieldError for each mistake. They are reported at the place in the
// file that sets the field, or that the field derives from. An error that only
// follows from one already reported is left out.
package config
