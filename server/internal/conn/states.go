package conn

import "github.com/fastlimit/fastlimit/server/internal/latency"

// stateOf names what connections do, for operators: several phases may be one state. The set is closed: it is
// a label.
var stateOf = [phases]string{
	fresh: "new", opens: "opening", reading: "reading", body: "reading", sending: "reading",
	writing: "answering", queued: "in_line", asking: "upstream",
	idle: "idle", idleDenied: "idle_denied", lingering: "closing", tunneling: "tunnel", streaming: "http2",
}

// dismissedState is the state of dismissed connections that are not closed yet.
const dismissedState = "dismissed"

// States returns how many connections are open, by state, including empty states. A connection with streams
// counts once, whatever its streams do.
func (c *Conns) States() map[string]int {
	all := map[string]int{dismissedState: 0}
	for _, state := range stateOf {
		all[state] = 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cn := range c.all.members {
		all[stateOf[cn.phase()]]++
	}
	all[dismissedState] = len(c.gone.members)
	return all
}

// Waited returns how long requests have waited for their slot, whatever the result.
func (c *Conns) Waited() latency.Counts { return c.waited.Counts() }
