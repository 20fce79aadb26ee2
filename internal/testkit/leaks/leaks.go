// Package leaks has tests fail that leave goroutines behind.
package leaks

import (
	"fmt"
	"os"
	"time"

	"go.uber.org/goleak"
)

// ends is how long goroutines have to end. Those of libraries do so late: a dial that
// failed in a pool that is closed by now sleeps for its second, a probe waits for its timeout.
const ends = 2 * time.Minute

// lives are the functions whose goroutines live as long as the process.
var lives = []string{
	"github.com/valyala/fasthttp.updateServerDate.func1",
	"github.com/fastlimit/fastlimit/internal/testkit/redistest.Spawn",
}

// ExitCode is the exit code of tests that ended with code: 1 if they passed and left
// a goroutine behind that does not end. Call it in TestMain.
func ExitCode(code int) int {
	var except []goleak.Option
	for _, f := range lives {
		except = append(except, goleak.IgnoreAnyFunction(f))
	}
	for end := time.Now().Add(ends); code == 0; {
		leak := goleak.Find(except...) // waits itself for a moment
		if leak == nil {
			break
		}
		if time.Now().After(end) {
			fmt.Fprintln(os.Stderr, leak)
			code = 1
		}
	}
	return code
}
