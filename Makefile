# Targets are explained by "make help". Tools are pinned and live in .tmp/bin;
# "git status" is clean after any of them.

GO            ?= go
GOLANGCI_LINT ?= v2.15.0
FUZZTIME      ?= 10s
BENCHTIME     ?= 1s

BIN  := $(CURDIR)/.tmp/bin
LINT := $(BIN)/golangci-lint-$(GOLANGCI_LINT)

.DEFAULT_GOAL := all
.PHONY: all build test race lint fuzz bench bench-report fix clean help system-test system-race

all: build test lint ## Build, test and lint

build: ## Build ./fastlimit
	$(GO) build -o fastlimit ./cmd/fastlimit

test: system-test ## Vet and run all tests (under 4 minutes)
	$(GO) vet -tags netns,prometheus ./...
	$(GO) test ./...
	@files=$$(grep -rl --include='*_test.go' '^//go:build.*netns' .); set -x; \
	$(GO) test -tags netns -p 1 -run "^($$(sed -n 's/^func \(Test[A-Za-z0-9_]*\)(t .*/\1/p' $$files | paste -sd'|'))\$$" $$(dirname $$files | sort -u)
	$(GO) test -tags prometheus -run '^TestAlert' ./cmd/fastlimit
	cd bench/peers && $(GO) vet ./... && $(GO) test ./...
	cd middleware/grpc && $(GO) vet ./... && $(GO) test ./...
	cd server/http2spec && $(GO) vet ./... && $(GO) test ./...

race: system-race system-test ## Run the short tests under the race detector
	$(GO) test -race -short ./...
	cd middleware/grpc && $(GO) test -race -short ./...

lint: $(LINT) ## Run the linters, check formatting and go.mod, build for macOS and Windows
	@test -z "$$(gofmt -l . | tee /dev/stderr)" || { echo 'gofmt: run "make fix"' >&2; exit 1; }
	$(GO) vet ./...
	GOOS=darwin $(GO) build ./...
	GOOS=windows $(GO) build ./...
	$(GO) mod tidy -diff
	cd bench/peers && $(GO) mod tidy -diff
	cd middleware/grpc && $(GO) mod tidy -diff
	cd server/http2spec && $(GO) mod tidy -diff
	$(GO) mod verify
	$(LINT) run ./...
	cd bench/peers && $(LINT) run ./...
	cd middleware/grpc && $(LINT) run ./...
	cd server/http2spec && $(LINT) run ./...

fuzz: ## Run every fuzz target for FUZZTIME (10s)
	@set -e; \
	for file in $$(grep -rl --include='*_test.go' '^func Fuzz' .); do \
	  for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$$file"); do \
	    echo "fuzz $$target in $$(dirname "$$file")"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")"; \
	  done; \
	done

bench: ## Run the Go benchmarks (BENCHTIME=1s each); go run ./bench measures more
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

bench-report: ## Measure everything, with peers, and write bench/results (1 hour)
	./bench/report.sh

fix: $(LINT) ## Format, and fix what the linters can fix
	$(LINT) run --fix ./... || true
	$(LINT) fmt ./...
	$(GO) mod tidy
	cd bench/peers && $(GO) mod tidy
	cd middleware/grpc && $(GO) mod tidy
	cd server/http2spec && $(GO) mod tidy

clean: ## Remove what was built, tools included
	rm -rf .tmp bin fastlimit

help: ## Show this help
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

$(LINT):
	GOBIN=$(BIN) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)
	mv $(BIN)/golangci-lint $@

# What the tests need beside Go: installed where that is possible without
# asking, else asked for.
system-test:
	@./.ci/need redis-server:redis-server postgres:postgresql nginx:nginx-light haproxy:haproxy caddy:caddy \
	  apache2:apache2 /usr/share/lua/5.3/socket.lua:lua-socket varnishd:varnish \
	  nft:nftables ip:iproute2 ss:iproute2 nsenter:util-linux setpriv:util-linux taskset:util-linux \
	  prometheus:prometheus promtool:prometheus

system-race:
	@./.ci/need gcc:gcc gcc:libc6-dev
