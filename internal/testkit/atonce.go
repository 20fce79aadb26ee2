package testkit

import (
	"flag"
	"strconv"
)

// AtOnce has go test run n parallel tests at a time unless its -parallel says otherwise: who
// waits for a server most of the time needs no processor for that. Call it in TestMain.
func AtOnce(n int) {
	if f := flag.Lookup("test.parallel"); f != nil && !flag.Parsed() {
		_ = f.Value.Set(strconv.Itoa(n))
	}
}
