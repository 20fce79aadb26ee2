// Command peerbench measures fastlimit beside the limiters that people would
// otherwise pick. It is `go run ./bench` with more limiters in process: see
// docs/benchmarks.md.
//
//	cd bench/peers && go run ./cmd/peerbench local --redis redis://127.0.0.1:6379/9
package main

import (
	"github.com/fastlimit/fastlimit/bench/command"
	"github.com/fastlimit/fastlimit/bench/peers"
)

func main() { command.Main("peerbench", peers.All) }
