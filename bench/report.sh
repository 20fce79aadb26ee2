#!/bin/sh
# Measures everything and writes bench/results/DATE.json and DATE.html.
# Run it on a machine that does nothing else; it takes about 25 minutes, most
# of them for floods of 10^7 keys. See docs/benchmarks.md.
set -eu
cd "$(dirname "$0")/.."

port=${REDIS_PORT:-16379}
keys=${KEYS:-1e6,1e7}
work=.tmp/bench
name=bench/results/$(date -u +%Y-%m-%d)

for program in go nginx haproxy redis-server; do
	PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || {
		echo "bench-report: no $program on this machine: install it (Debian: nginx-light, haproxy, redis-server)" >&2
		exit 1
	}
done

mkdir -p "$work" bench/results
go build -o "$work/fastlimit" ./cmd/fastlimit
go build -o "$work/httpcost" ./bench/httpcost
(cd bench/peers && go build -o "../../$work/peerbench" ./cmd/peerbench)

"$work/httpcost" -fastlimit "$work/fastlimit" -out "$work/cost.json"
"$work/fastlimit" bench http --rounds 15 --duration 10s -o json --out "$work/http.json"
"$work/fastlimit" bench redis -o json --out "$work/redis.json"

# redis_rate, one of the peers, wants a Redis of its own.
redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no --dir "$work" >/dev/null &
redis=$!
trap 'kill $redis' EXIT
"$work/peerbench" -redis "redis://127.0.0.1:$port/0" -keys "$keys" >"$work/peers.json"

"$work/fastlimit" bench report -o json --out "$name.json" --html "$name.html" \
	"$work/peers.json" "$work/http.json" "$work/cost.json" "$work/redis.json"
echo "wrote $name.json and $name.html"
