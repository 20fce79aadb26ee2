// Command bench measures fastlimit and the limiters that people would otherwise
// pick: how fast they decide, how right they are and how much memory they take,
// in process, over HTTP, with Redis and in a cluster, in one run on one machine.
// docs/benchmarks.md says what the figures mean.
//
//	go run ./bench all
//
// Each limiter in process is measured in a process of its own, which is this
// program again; what is measured over HTTP is the product's own binary.
package main

import "github.com/fastlimit/fastlimit/bench/command"

func main() { command.Main("bench", nil) }
