# Targets are explained by "make help". Tools are pinned and live in .tmp/bin;
# "git status" is clean after any of them.

GO            ?= go
GOLANGCI_LINT ?= v2.15.0
FUZZTIME      ?= 10s
FUZZFLAGS     ?= -fuzz .
BENCHTIME     ?= 1s
# Packages that are tested at a time.
PACKAGES      ?= 2

BIN  := $(CURDIR)/.tmp/bin
LINT := $(BIN)/golangci-lint-$(GOLANGCI_LINT)

MODULES := bench/peers deploy/k8stest deploy/release internal/rls/planetest middleware/grpc server/http2spec server/pagetest
GOTEST  := $(GO) test -vet=off -parallel 4 -timeout 20m

.DEFAULT_GOAL := all
.NOTPARALLEL:
.PHONY: all build image-root release check mutants test test-compile test-packages test-netns test-others test-image test-release soak race lint fuzz bench bench-report fix clean help system-test system-race system-release

all: build test lint ## Build, test and lint

build: ## Build ./fastlimit
	$(GO) build -o fastlimit ./cmd/fastlimit

# What is in the container image, which has nothing else: deploy/Dockerfile copies it.
CERTIFICATES ?= /etc/ssl/certs/ca-certificates.crt
image-root: ## Lay out the container image's files in DIR
	@test -n '$(DIR)' || { echo 'image-root: want make image-root DIR=folder' >&2; exit 1; }
	@test -r '$(CERTIFICATES)' || { echo 'image-root: no $(CERTIFICATES); Debian: sudo apt-get install ca-certificates' >&2; exit 1; }
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -o '$(DIR)/bin/fastlimit' ./cmd/fastlimit
	ln -sf fastlimit '$(DIR)/bin/ratelimit'
	install -D -m 644 '$(CERTIFICATES)' '$(DIR)/etc/ssl/certs/ca-certificates.crt'

release: ## Make binaries, archives, deb and rpm of the last commit, in .tmp/release
	cd deploy/release && $(GO) run . -repo ../.. -out ../../.tmp/release

check: $(LINT) system-test ## Check what differs from BASE (main): format, build, lint, short tests
	LINT=$(LINT) BASE=$(BASE) $(GO) run ./internal/house/check

mutants: system-test ## Make each mistake of testdata/mutants: a test must fail (ONLY=name, AREA=bucket)
	AREA='$(AREA)' ONLY='$(ONLY)' $(GO) run ./internal/house/mutants

# What compiles comes first, and nothing beside the tests of packages: many of them start servers, which have a
# deadline. Others wait for something, so that more of them run at a time than there are cores.
test: system-test test-compile test-packages test-others test-netns ## Run all tests, vetted by make lint (15 minutes on two slow cores)

test-compile:
	@for module in . $(MODULES); do (cd $$module && $(GO) list -export -deps -test ./... >/dev/null) || exit; done

test-packages:
	$(GOTEST) -p $(PACKAGES) ./...

test-netns:
	@files=$$(grep -rl --exclude-dir=.tmp --include='*_test.go' '^//go:build.*netns' .); set -x; \
	$(GOTEST) -tags netns -p 1 -run "^($$(sed -n 's/^func \(Test[A-Za-z0-9_]*\)(t .*/\1/p' $$files | paste -sd'|'))\$$" $$(dirname $$files | sort -u)

test-others:
	$(GOTEST) -tags prometheus -run '^Test(Alert|Dashboard)' ./cmd/fastlimit
	for module in $(MODULES); do (cd $$module && $(GOTEST) ./...) || exit; done

test-image: ## Run the container image's files, as root; compiles everything anew
	cd internal/rls/planetest && $(GOTEST) -tags image -skip 'Certificates|KeysWithoutEnd' ./...

# The packages are installed in a new Debian.
test-release: system-release ## Make a release twice and install its packages, as root (3 minutes)
	cd deploy/release && $(GOTEST) -tags release ./...

soak: system-test ## Run all tests at their full size (1 hour)
	FASTLIMIT_SOAK=1 $(GO) test -count=1 -timeout 2h ./...

race: system-race system-test ## Run the short tests under the race detector
	PACKAGES=$(PACKAGES) ./.ci/race

lint: $(LINT) ## Run the linters, vet, check formatting and go.mod
	@test -z "$$(gofmt -l . | tee /dev/stderr)" || { echo 'gofmt: run "make fix"' >&2; exit 1; }
	for module in . $(MODULES); do (cd $$module && $(GO) mod tidy -diff && $(LINT) run ./...) || exit; done
	$(GO) mod verify

fuzz: ## Run every fuzz target for FUZZTIME (10s)
	./.ci/fuzz $(FUZZTIME) "$(FUZZFLAGS)"

bench: ## Run the Go benchmarks (BENCHTIME=1s each); go run ./bench measures more
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

bench-report: ## Measure everything, with peers, and write bench/results (1 hour)
	./bench/report.sh

fix: $(LINT) ## Format, and fix what the linters can fix
	$(LINT) run --fix ./... || true
	$(LINT) fmt ./...
	for module in . $(MODULES); do (cd $$module && $(GO) mod tidy) || exit; done

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
	  apache2:apache2 node:nodejs python3:python3 java:default-jre-headless /usr/share/tomcat10/bin/bootstrap.jar:tomcat10 /usr/share/lua/5.3/socket.lua:lua-socket varnishd:varnish \
	  nft:nftables ip:iproute2 ss:iproute2 nsenter:util-linux setpriv:util-linux taskset:util-linux systemd-analyze:systemd \
	  prometheus:prometheus promtool:prometheus chromium:chromium \
	  zsh:zsh fish:fish man:man-db groff:groff-base

system-race:
	@./.ci/need gcc:gcc gcc:libc6-dev

system-release:
	@./.ci/need git:git debootstrap:debootstrap rpm:rpm rpm2cpio:rpm2cpio cpio:cpio readelf:binutils systemd-analyze:systemd
