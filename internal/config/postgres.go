package config

import (
	"time"

	"github.com/fastlimit/fastlimit/bucket/pgstore"
)

const postgresExample = `write for example postgres: {url: "postgres://fastlimit@127.0.0.1:5432/fastlimit"}`

// postgresSettings leaves defaults to package pgstore, but for timeout, which the limiter
// is planned with.
var postgresSettings = section{
	name: "postgres", want: `settings such as {url: "postgres://fastlimit@127.0.0.1:5432/fastlimit"}`, where: "in postgres, indented more than postgres", like: "redis",
	oneOf: []string{"url", "url_file"}, example: postgresExample,
	settings: []setting{
		{name: "url", field: "URL", value: anyText("URL", textSchema(), "a URL such as postgres://fastlimit@127.0.0.1:5432/fastlimit"), doc: "`postgres://user@host:5432/database`, with parameters of libpq such as `sslmode=verify-full`, and several hosts if there are standbys"},
		{name: "url_file", field: "URL", value: fileContent(), doc: "a file with the URL, to keep a password out of the configuration"},
		{name: "schema", field: "Schema", value: text("text", "a name such as fastlimit"), shown: "`fastlimit`", doc: "schema of the table and the functions that `fastlimit store init` creates"},
		{
			name: "timeout", field: "Timeout", value: duration(time.Millisecond, time.Second, "20ms", ": requests wait this long when PostgreSQL is slow"), def: "20ms",
			doc: "longest time that a request waits; then `on_failure` decides. Use 5 times the round trip",
		},
		{name: "workers", field: "Workers", value: whole(number{least: 1, most: pgstore.MaxWorkers, example: "2"}), shown: "`2`", doc: "batches in flight, each on its own connection; there are two more connections"},
		{name: "queue", field: "Queue", value: whole(number{least: 1, most: pgstore.MaxQueue, example: "2048"}), shown: "`2048`", doc: "how many checks may wait for a worker"},
		{name: "retry_min", field: "RetryMin", value: duration(time.Millisecond, time.Minute, "100ms", ""), shown: "`100ms`", doc: "pause before the second attempt to reach a PostgreSQL that is down; it doubles each time"},
		{name: "retry_max", field: "RetryMax", value: duration(time.Millisecond, time.Minute, "2s", ""), shown: "`2s`", doc: "longest such pause"},
		{name: "prune", field: "Prune", value: duration(time.Second, 24*time.Hour, "1m", ""), shown: "`1m`", doc: "pause between two searches for expired rows"},
	},
}
