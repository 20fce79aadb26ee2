#!/bin/sh
# Measures everything and writes bench/results/DATE.json and DATE.html.
# Run it on a machine that does nothing else; it takes up to an hour, a third
# of it for servers over HTTP. See docs/benchmarks.md. Interrupted, it
# leaves what it has in .tmp/bench/partial.json and .html.
#
# BEFORE=PATH measures another fastlimit beside it, the one before a change.
# For a try: KEYS=1e5 ROUNDS=1 PAIRS=5 REQUESTS=20000 PATIENCE=5s DURATION=2s RESULTS=/tmp make bench-report
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:${SBIN:-/usr/sbin}

port=${REDIS_PORT:-16379}
work=.tmp/bench
results=${RESULTS:-bench/results}
name=$results/$(date -u +%Y-%m-%d)

missing=
for program in go nginx haproxy redis-server redis-cli; do
	command -v "$program" >/dev/null || missing="$missing $program"
done
if [ -n "$missing" ]; then
	echo "bench-report: missing:$missing; Debian: sudo apt-get install nginx-light haproxy redis-server" >&2
	exit 1
fi
if ! mkdir -p "$work" "$results" || ! : >"$name.part"; then
	echo "bench-report: cannot write to $results" >&2
	exit 1
fi
rm -f "$name.part" "$work"/*.json "$work"/*.html

redis=
finish() {
	status=$?
	trap - EXIT
	trap '' INT TERM
	[ -z "$redis" ] || kill "$redis"
	if [ $status -ne 0 ]; then
		set --
		for part in local algorithms accuracy memory http http-shapes http-many http-headers cost redis redis-http redis-faults cluster; do
			[ ! -s "$work/$part.json" ] || set -- "$@" "$work/$part.json"
		done
		if [ $# -gt 0 ]; then
			"$work/bench" report -o json --out "$work/partial.json" --html "$work/partial.html" "$@" &&
				echo "bench-report: incomplete: see $work/partial.json and $work/partial.html" >&2
		fi
	fi
	exit $status
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The commit is in the report, whatever GOFLAGS say.
go build -buildvcs=auto -o "$work/fastlimit" ./cmd/fastlimit
go build -buildvcs=auto -o "$work/bench" ./bench
(cd bench/peers && go build -buildvcs=auto -o "../../$work/peerbench" ./cmd/peerbench)

set -- ${BEFORE:+--before "$BEFORE"}
"$work/bench" httpcost --binary "$work/fastlimit" --pairs "${PAIRS:-100}" -o json --out "$work/cost.json"
"$work/bench" http --binary "$work/fastlimit" --server fastlimit,nginx,haproxy,bare --syscalls --idle 10000 --admin \
	--rounds "${ROUNDS:-20}" --duration "${DURATION:-10s}" "$@" -o json --out "$work/http.json"
"$work/bench" http --binary "$work/fastlimit" --server fastlimit,nginx,nginx-tuned,haproxy,bare --conns 1,32,1000 --reconnect \
	--no-flood --rounds "${ROUNDS:-20}" --duration 4s "$@" -o json --out "$work/http-shapes.json"
# A round of 5,000 connections must be longer than it takes to open them.
"$work/bench" http --binary "$work/fastlimit" --server fastlimit,nginx,haproxy,bare --conns 5000 --requests "${REQUESTS:-100000}" \
	--no-flood --rounds "${ROUNDS:-20}" --duration 4s -o json --out "$work/http-many.json"
"$work/bench" http --binary "$work/fastlimit" --server fastlimit,nginx,haproxy --headers browser,forwarded \
	--no-flood --rounds "${ROUNDS:-20}" --duration 4s -o json --out "$work/http-headers.json"
"$work/bench" redis -o json --out "$work/redis.json"
"$work/bench" redis --http --binary "$work/fastlimit" --duration "${DURATION:-10s}" -o json --out "$work/redis-http.json"
"$work/bench" redis --faults -o json --out "$work/redis-faults.json"
"$work/bench" cluster -o json --out "$work/cluster.json"

# redis_rate, one of the peers, wants a Redis of its own.
redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no --dir "$work" >/dev/null &
redis=$!
until redis-cli -p "$port" ping >/dev/null 2>&1; do
	kill -0 "$redis" || { echo "bench-report: redis-server does not start: is port $port taken? REDIS_PORT names another" >&2; exit 1; }
	sleep 0.1
done
redis_url=redis://127.0.0.1:$port/0
"$work/peerbench" local --redis "$redis_url" --rounds "${ROUNDS:-11}" -o json --out "$work/local.json"
"$work/peerbench" algorithms --redis "$redis_url" --rounds "${ROUNDS:-11}" -o json --out "$work/algorithms.json"
"$work/peerbench" accuracy --redis "$redis_url" --requests "${REQUESTS:-500000}" -o json --out "$work/accuracy.json"
"$work/peerbench" memory --keys "${KEYS:-1e7,1e8}" --patience "${PATIENCE:-2m}" -o json --out "$work/memory.json"

"$work/bench" report -o json --out "$name.json" --html "$name.html" \
	"$work/local.json" "$work/algorithms.json" "$work/accuracy.json" "$work/memory.json" "$work/http.json" "$work/http-shapes.json" "$work/http-many.json" "$work/http-headers.json" "$work/cost.json" "$work/redis.json" \
	"$work/redis-http.json" "$work/redis-faults.json" "$work/cluster.json"
echo "wrote $name.json and $name.html"
