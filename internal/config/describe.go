package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit"
)

// Describe explains, in lines for people, how the memory is shared out, how much
// traffic each rule carries and by how much a client can exceed its limit. p is the
// plan of c.Limiter().
func Describe(c *Config, p *fastlimit.Plan) string {
	var b strings.Builder
	describeMemory(&b, c, p)
	describeTables(&b, p)
	describeTalkers(&b, c, p)
	describeLogs(&b, p)
	describeWait(&b, c)
	describeOverrides(&b, c, p)
	describeLists(&b, c)
	describeBans(&b, c, p)
	describeKernel(&b, c)
	b.WriteByte('\n')
	describeRules(&b, p)
	describeCluster(&b, c, p)
	return b.String()
}

// size is a number of bytes in binary units.
func size(n int64) string { return scaled(float64(n), 1024, " B", " KiB", " MiB", " GiB", " TiB") }

// count is a number with k, M or G.
func count(v float64) string { return scaled(v, 1000, "", "k", "M", "G") }

// perSecond is per day what would be 0.0 per second.
func perSecond(v float64) string {
	if v < 0.05 {
		return count(86_400*v) + " requests/day"
	}
	return count(v) + " requests/s"
}

// scaled divides v by base until it is below or at the last unit, and rounds it to
// one digit after the point.
func scaled(v, base float64, units ...string) string {
	for v >= base && len(units) > 1 {
		v, units = v/base, units[1:]
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") + units[0]
}

// roughly rounds a time: to days, minutes or tenths of a second. It is for estimates;
// what the user has written is shown by shortTime.
func roughly(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.0f days", d.Hours()/24)
	case d >= time.Minute:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return d.Round(100 * time.Millisecond).String()
}
