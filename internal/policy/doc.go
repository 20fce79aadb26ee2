// Package policy turns a request into a verdict: who the client is, which
// rules apply, by which keys, and what the limiter says. It knows nothing of
// HTTP servers or log files; both the server and the replay of logs use it.
package policy
