package config

import "time"

// Bounds of the file alone, here and in the sections below: no server needs more. They catch
// slips of the unit.
const (
	maxConnections = 1 << 24
	minTimeout     = 100 * time.Millisecond
	maxTimeout     = time.Hour
)

// connectionSettings fills server.Connections.
var connectionSettings = section{
	name: "connections", want: "settings, such as {max: 16384, max_per_client: 1024}", where: "in connections, indented more than connections",
	settings: []setting{
		{name: "max", field: "Max", value: whole(number{least: 1, most: maxConnections, example: "16384"}), def: "16384", doc: "open connections of all listeners together"},
		{name: "max_per_client", field: "MaxPerClient", value: whole(number{least: 1, most: maxConnections, example: "1024"}), def: "1024", doc: "open connections of one IPv4 address or IPv6 /64; trusted proxies are exempt"},
		{name: "max_streams_per_client", field: "MaxStreamsPerClient", value: whole(number{least: 1, most: maxConnections, example: "1024"}), def: "1024", doc: "HTTP/2 requests that such a client may have in progress on all its connections; further ones are answered 503"},
		{name: "header_bytes", field: "HeaderBytes", value: byteSize(1<<10, 1<<20, "32KiB", "32KiB", ""), def: "32KiB", doc: "size of a request's line and headers; larger ones are answered 431"},
		{name: "body_bytes", field: "BodyBytes", value: byteSize(1<<10, 1<<20, "64KiB", "64KiB", ""), def: "64KiB", doc: "how much of a body is read and discarded to keep the connection open; after a larger one it is closed with the answer"},
		{name: "header_timeout", field: "HeaderTimeout", value: duration(minTimeout, maxTimeout, "5s", ""), def: "5s", doc: "time for the headers to arrive, and again for the body; after that the answer is 408"},
		{name: "idle_timeout", field: "IdleTimeout", value: duration(minTimeout, maxTimeout, "60s", ""), def: "60s", doc: "time until the next request"},
		{name: "write_timeout", field: "WriteTimeout", value: duration(minTimeout, maxTimeout, "10s", ""), def: "10s", doc: "time for an answer to make progress"},
	},
}
